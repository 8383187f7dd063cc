"""HDFS, over its own RPC or over WebHDFS."""
