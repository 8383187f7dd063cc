"""Azure Data Lake Storage."""
