"""What a store must keep, each promise with a name and a check, and the checks of the doctor."""
