"""What does a store cost that refuses requests: one in a hundred by chance, or all above its limit?

3,000 files on a store of 20 ms a request with 32 threads of one process. By chance: a refusal asks for a
wait of a second, and is the whole call's time in times of that without refusals. Above a limit of 400
requests a second: how much of the limit was used by the whole call.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

import harness

from ray_committer import CommitOptions
from ray_committer.errors import ThrottledError
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.testing import StoreCall, run_commit, throttle_above
from ray_committer.work.worker import Worker

SECONDS = 0.020
TASKS, FILES_A_TASK, DIRECTORIES = 20, 150, 10
THREADS = 32
STRAY, RETRY_AFTER_SECONDS = 0.01, 1.0
LIMIT = 400


class Refusing(harness.PricedStore):
    """A store that refuses a share of all requests by chance, or those above a limit."""

    def __init__(
        self,
        *,
        stray: float = 0.0,
        limit: int | None = None,
        seconds: float = SECONDS,
        retry_after_seconds: float | None = RETRY_AFTER_SECONDS,
    ) -> None:
        super().__init__(seconds)
        self.refused: deque[str] = deque()
        self._retry_after_seconds = retry_after_seconds
        self._random = random.Random(1)  # noqa: S311 - repeatable, not secret
        self._stray = stray
        self._above = None if limit is None else throttle_above(limit)
        self._one_by_one = threading.Lock()

    def _pay(self, call: StoreCall) -> None:
        super()._pay(call)
        try:
            with self._one_by_one:
                if self._random.random() < self._stray:
                    raise ThrottledError(call.paths[0], self._retry_after_seconds)
                if self._above is not None:
                    self._above(call)
        except ThrottledError:
            self.refused.append(call.operation)
            raise


def measure(root: Path, store: Refusing) -> dict[str, float]:
    """One commit on threads, its job written anew."""
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    executor = ThreadsExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True), threads=THREADS
    )
    started = time.monotonic()
    run_commit(store, job, CommitOptions(validate=False), executor=executor)
    seconds = time.monotonic() - started
    executor.close()
    served = len(store.requests) - len(store.refused)
    return {"seconds": seconds, "refused": len(store.refused), "of_limit": served / (seconds * LIMIT)}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="throttling-")) / "table"
    plain, stray = [], []
    measure(root, Refusing())
    for _ in range(harness.ROUNDS):
        plain.append(measure(root, Refusing()))
        stray.append(measure(root, Refusing(stray=STRAY)))
    limited = harness.rounds(lambda: measure(root, Refusing(limit=LIMIT)), number=3)
    times = harness.medians(stray)["seconds"] / harness.medians(plain)["seconds"]
    harness.save(
        "throttling",
        __doc__,
        {
            "files": TASKS * FILES_A_TASK,
            "seconds_a_request": SECONDS,
            "without_refusals": {"rounds": plain, "median": harness.medians(plain)},
            "one_in_a_hundred_refused": {"rounds": stray, "median": harness.medians(stray)},
            "above_a_limit_refused": limited,
        },
        {
            "one in a hundred refused, times the seconds": (round(times, 2), "<=", 1.3),
            "of a store's limit": (round(limited["median"]["of_limit"], 3), ">=", 0.75),
        },
    )


if __name__ == "__main__":
    main()
