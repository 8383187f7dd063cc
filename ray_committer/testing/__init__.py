"""Tools for tests of commits, ours and other people's: stores that fail on demand."""

from ray_committer.testing.faults import SimulatedCrash, StoreCall, WrappedStore
from ray_committer.testing.harness import run_commit

__all__ = ["SimulatedCrash", "StoreCall", "WrappedStore", "run_commit"]
