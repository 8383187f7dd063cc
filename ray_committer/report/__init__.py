"""Reports of a commit for people and programs."""
