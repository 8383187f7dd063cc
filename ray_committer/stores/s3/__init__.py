"""Amazon S3 and servers of its API: files are uploads that a commit completes, never renames."""
