"""What a table with a log adds to a commit: its jobs take turns."""
