"""Tables to which many jobs commit: the log that orders the jobs, and what is derived from it."""
