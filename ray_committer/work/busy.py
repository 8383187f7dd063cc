"""How long each worker of a process was busy, where a worker can have several shards at once."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(slots=True)
class _Busy:
    shards: int = 0
    since: float = 0.0


class BusyTimes:
    """Busy seconds by worker; shards that overlap share them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[str, _Busy] = {}

    def begin(self, worker: str, now: float) -> None:
        """A shard begins at `now`."""
        with self._lock:
            busy = self._busy.setdefault(worker, _Busy())
            if busy.shards == 0:
                busy.since = now
            busy.shards += 1

    def end(self, worker: str, now: float) -> float:
        """A shard ends; return the busy seconds of the worker that no other shard has counted."""
        with self._lock:
            busy = self._busy[worker]
            # The time since the last end counts for this shard alone, so overlapping shards never count
            # it twice.
            seconds, busy.since = now - busy.since, now
            busy.shards -= 1
            return seconds
