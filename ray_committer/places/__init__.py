"""What differs by kind of store: how the files of a job, and old files, come to their places and go."""
