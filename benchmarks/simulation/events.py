"""What a simulation is made of: events in the order of their times, and servers that others wait for."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Loop:
    """Events, each at its time in seconds; an event can add others."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        heappush(self._waiting, (seconds, next(self._numbers), event))

    def run(self) -> None:
        """Run until no event is left."""
        while self._waiting:
            seconds, _, event = heappop(self._waiting)
            self.now = max(self.now, seconds)
            event()


class Server:
    """What serves one at a time, as the driver does; it adds up how long it was `busy`."""

    def __init__(self) -> None:
        self.free = 0.0
        self.busy = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """When something that comes now and takes so many seconds is done."""
        self.free = max(self.free, now) + seconds
        self.busy += seconds
        return self.free


class Gate:
    """Lets a number of requests pass per second, in the order in which they come.

    The number `doubles` every so many seconds, or never. It adds up how long it was `busy`.
    """

    def __init__(self, per_second: float, doubles: float | None = None) -> None:
        self._per_second = per_second
        self._doubles = doubles
        self._free = 0.0
        self.busy = 0.0

    def take(self, now: float, requests: float) -> float:
        """When the last of some requests, the first of which comes now, has passed."""
        begin = max(self._free, now)
        self._free = self._passed(begin, requests)
        self.busy += self._free - begin
        return self._free

    def _passed(self, begin: float, requests: float) -> float:
        if self._doubles is None:
            return begin + requests / self._per_second
        rate = math.log(2) / self._doubles  # the integral of per_second * e**(rate * t)
        return math.log(math.exp(rate * begin) + requests * rate / self._per_second) / rate


class Lane:
    """A worker, or a thread of the driver: `threads` requests at once, none idle while there is work.

    `given` are its calls. It may be `lost` at some time.
    """

    def __init__(self, threads: int, slowness: float = 1.0) -> None:
        self.threads = threads
        self.slowness = slowness
        self.lost = math.inf
        self.given = 0
        self._origin = self._free = self._done = self._seconds = 0.0

    def begin(self, now: float) -> None:
        """Begin a stage, or again after a loss, with no call."""
        self.given, self.lost = 0, math.inf
        self.wait_until(now)

    def work(self, now: float, items: float, seconds: float) -> tuple[float, float]:
        """When some items that come now begin, and when the last of them ends.

        Each takes a thread so many seconds.
        """
        if now > self._free or seconds != self._seconds:
            self._origin, self._done, self._seconds = max(now, self._free), 0.0, seconds
        begin = self._origin + self._done * seconds / self.threads
        self._done += items
        self._free = self._origin + self._done * seconds / self.threads
        end = self._origin + math.ceil(self._done / self.threads - 1e-9) * seconds
        return begin, end

    def wait_until(self, seconds: float) -> None:
        """Let no item begin before that time."""
        if seconds > self._free:
            self._origin, self._done, self._free = seconds, 0.0, seconds
