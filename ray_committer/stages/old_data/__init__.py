"""The old files that a job replaces or hides: which they are, and where they are until the commit."""
