"""Tools for tests of commits and of stores: stores and executors that fail on demand."""

from ray_committer.testing.chaos_executor import Chaos, ChaosExecutor, WorkerDied
from ray_committer.testing.faults import (
    LinkingStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    delay_at,
    fail_at,
    throttle,
    throttle_above,
    together,
)
from ray_committer.testing.harness import chaos_executor, run_abort, run_commit, visible_files, write_job
from ray_committer.testing.memory_store import Identity, MemoryStore
from ray_committer.testing.store_contract import StoreContract

__all__ = [
    "Chaos",
    "ChaosExecutor",
    "Identity",
    "LinkingStore",
    "MemoryStore",
    "SimulatedCrash",
    "StoreCall",
    "StoreContract",
    "WorkerDied",
    "WrappedStore",
    "chaos_executor",
    "crash_at",
    "delay_at",
    "fail_at",
    "run_abort",
    "run_commit",
    "throttle",
    "throttle_above",
    "together",
    "visible_files",
    "write_job",
]
