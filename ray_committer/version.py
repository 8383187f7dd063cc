"""The version of this package; the same must run on all nodes of a commit."""

__version__ = "0.1.0"
