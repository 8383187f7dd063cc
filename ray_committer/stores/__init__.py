"""Stores: the operations that a commit needs, each with what it guarantees."""
