"""What `ray-committer doctor` looks at."""
