"""Catalogs that know the partitions of a table: what they can do, and how they are told of changes."""
