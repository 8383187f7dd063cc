"""Exports of a table with a log to other formats: the same files, named in another way."""
