"""Hadoop's settings of stores, as a Spark session has them."""
