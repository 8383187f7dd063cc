"""What a person asks about a table with a log: versions, files, claims, jobs made from its log."""
