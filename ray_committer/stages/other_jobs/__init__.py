"""Other jobs and attempts in the way of one commit: which are ended, and how the others have ended."""
