"""One run of a commit: what it keeps, what it sees, and what its failure means."""
