"""Check a destination: its store, then the processes that would commit to it, then Spark."""

from __future__ import annotations

from ray_committer.executors.choose import ExecutorName
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.promises.lines import Diagnosis, Line, Verdict
from ray_committer.promises.network_lines import examine_processes
from ray_committer.promises.ray_lines import examine_ray
from ray_committer.promises.spark_lines import examine_spark
from ray_committer.promises.store_lines import costs, examine_store, what_it_is
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore

RETRY_SECONDS = 20.0


def examine(
    store: StoreOperations, destination: str, executor: ExecutorName, options: CommitOptions
) -> Diagnosis:
    """Check everything that a commit to the directory `destination` of `store` depends on."""
    permits = Permits(RateLimit(options.max_requests_per_second), "doctor", is_here=True)
    guarded = GuardedStore(store, permits, retry_seconds=RETRY_SECONDS)
    lines = [
        what_it_is(
            store, without_password(f"{store.spec.scheme}://{store.spec.authority}{destination}")
        ),
        *examine_store(
            guarded,
            GuardedStore(store, permits, retry_seconds=0.0),
            store,
            destination,
            lambda scratch: [
                *examine_processes(scratch),
                *examine_ray(scratch, store.spec, executor, options),
            ],
        ),
        costs(store),
        *examine_spark(),
    ]
    return Diagnosis(destination, tuple(lines))


def refused(destination: str, what: str, advice: str = "") -> Diagnosis:
    """Return the diagnosis of a store that cannot be committed to."""
    return Diagnosis(destination, (Line("store", Verdict.FAILED, what, advice),))
