"""How much of a global limit of requests do workers use, also when one has most of the work?

Four Ray workers of 32 threads ask for permits as fast as they may, in the same five seconds: evenly, and
with ten times as many threads on one as on the others. A limit of 500 and of 5,000 requests a second.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import harness
import ray

from ray_committer import CommitOptions
from ray_committer.executors.ray.host import Host, HostedLimit
from ray_committer.limits.permits import Permits

SECONDS = 5.0
EVEN, SKEWED = (32, 32, 32, 32), (100, 10, 10, 10)


@dataclass(frozen=True, slots=True)
class Asker:
    """Takes permits with many threads."""

    limit: HostedLimit
    number: int
    threads: int
    begin: float  # by the clock that all processes of this machine share

    def count(self) -> int:
        """The permits taken in `SECONDS`, each followed by a request of 20 ms."""
        permits = Permits(self.limit, f"worker-{self.number}")
        end = self.begin + SECONDS
        taken = [0] * self.threads

        def work(thread: int) -> None:
            time.sleep(max(0.0, self.begin - time.time()))
            while time.time() < end:
                permits.acquire()
                if time.time() < end:
                    taken[thread] += 1
                time.sleep(0.020)

        running = [threading.Thread(target=work, args=(n,)) for n in range(self.threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        permits.close()
        return sum(taken)


def count(asker: Asker) -> int:
    return asker.count()


def measure(remote_count: Any, rate: float, threads: tuple[int, ...]) -> dict[str, float]:
    host = Host()
    host.wait_until_ready(30.0)
    limit = HostedLimit(host.actor, "commit", CommitOptions(max_requests_per_second=rate))
    begin = time.time() + 3.0
    refs = [remote_count.remote(Asker(limit, n, many, begin)) for n, many in enumerate(threads)]
    taken = sum(ray.get(refs))
    host.close()
    return {"of_limit": taken / (rate * SECONDS)}


def main() -> None:
    cases = {"500 even": (500.0, EVEN), "500 skewed": (500.0, SKEWED), "5000 even": (5000.0, EVEN)}
    with harness.local_ray():
        remote_count = ray.remote(num_cpus=0.5)(count)
        found = {
            name: harness.rounds(lambda: measure(remote_count, rate, threads))  # noqa: B023
            for name, (rate, threads) in cases.items()
        }
    bars = {
        f"of the limit, {name}": (round(found[name]["median"]["of_limit"], 3), ">=", 0.95)
        for name in cases
    }
    skewed = round(found["500 skewed"]["median"]["of_limit"], 3)
    bars["of the limit, 500 skewed, at most"] = (skewed, "<=", 1.05)
    harness.save("rate_limit", __doc__, {"cases": found}, bars)


if __name__ == "__main__":
    main()
