"""Examine destinations, jobs and files, without changing anything."""
