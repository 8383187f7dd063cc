"""Work on Ray: long-lived worker actors, and an actor for the coordinator and the limit of requests."""
