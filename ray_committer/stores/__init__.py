"""Stores: the operations that a commit needs, and what each operation guarantees."""
