"""The operations on jobs that a user calls."""
