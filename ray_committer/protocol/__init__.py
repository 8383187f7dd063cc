"""The manifest-committer protocol as pure values: no clock, thread, network, store or Ray."""
