"""A job's own files: its state, its record, what other jobs left, and who is at work."""
