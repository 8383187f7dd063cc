"""Work on Ray: long-lived worker actors, the coordinating and the limiting actor."""
