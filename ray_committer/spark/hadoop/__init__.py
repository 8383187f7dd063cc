"""Hadoop's settings as a Spark job has them, and what they mean for a commit."""
