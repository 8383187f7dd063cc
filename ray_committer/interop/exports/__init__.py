"""Export of a table with a log as a Delta table: the same files, named in Delta's own log."""
