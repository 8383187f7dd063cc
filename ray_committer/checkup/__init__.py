"""The doctor checks before the first commit: the store, the Ray cluster, Spark's jars."""
