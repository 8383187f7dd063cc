"""Readers of the files that a table's log names: pyarrow's datasets, and Ray Data's."""
