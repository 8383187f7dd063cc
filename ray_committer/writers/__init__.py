"""Python writers of jobs: Arrow, Ray Data, Spark."""
