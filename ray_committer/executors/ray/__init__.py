"""Work on Ray: remote tasks, long-lived worker actors, the coordinating and the limiting actor."""
