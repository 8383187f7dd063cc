"""Work on Ray: remote tasks, long-lived worker actors, and the coordinating directory actor."""
