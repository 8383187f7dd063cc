"""What one worker does in its process."""
