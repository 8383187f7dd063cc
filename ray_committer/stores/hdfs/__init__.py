"""HDFS, by its client in the JVM's library or by WebHDFS."""
