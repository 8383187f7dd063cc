"""The checks of `ray-committer doctor`."""
