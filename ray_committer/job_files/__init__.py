"""A job's own files: its state, its record, and who else is at work; the only rooms that write them."""
