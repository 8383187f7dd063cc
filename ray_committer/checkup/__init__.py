"""Look, before the first commit, whether one would work: the store, the Ray cluster, Spark's jars."""
