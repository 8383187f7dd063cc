"""The one way to wait: before a request is made again, and for others who are at work.

Pauses get longer each time, and are random, so that requests spread. Each kind of waiting has its
limits here. A request is repeated by the guard of a store (`stores.guarded`). Whoever else makes one
again has a reason of its own, such as a look at what the first one did, and takes its pauses from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import SystemRandom

LOOK_SECONDS = 1.0
"""The pause between two looks at what nothing speeds up, and the longest sleep without a `check`."""

RETRY_SECONDS = 300.0
"""How long a request is repeated unless the caller says otherwise."""

Sleep = Callable[[float], object]

_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Pauses:
    """The limits of the pauses for one kind of waiting, in seconds: each is twice the one before."""

    first: float
    longest: float

    def after(self, attempt: int, more: float = 0.0) -> float:
        """Return the pause after failed attempt `attempt`, from 1; 0 is the shortest. `more` can be
        added."""
        pause = min(self.longest, self.first * 2.0 ** min(attempt, 10)) + more
        return pause * _random.uniform(0.5, 1.0)


REQUEST = Pauses(0.1, 10.0)
"""Before a request is made again that the store did not answer."""
OTHERS = Pauses(0.01, 2.0)
"""For another process, which is at work where this one must be alone."""
LISTING = Pauses(0.004, 0.25)
"""Before a listing is made again that showed half of a rename."""
DATABASE = Pauses(0.4, 3.0)
"""Before a database is asked again that did not answer; it is down for longer than a store."""


def sleep(seconds: float, check: Callable[[], object] = lambda: None) -> None:
    """Sleep. `check` is called before it, after it and each second, and can raise an error to end it."""
    deadline = time.monotonic() + seconds
    check()
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_SECONDS))
        check()


@dataclass(slots=True)
class Waiting:
    """Wait for others, again and again, for `seconds` in all; `sleep` can raise an error to end it."""

    seconds: float
    sleep: Sleep = sleep
    clock: Callable[[], float] = time.monotonic
    attempt: int = 0
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.seconds

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.deadline

    def wait(self) -> None:
        """Sleep, each time longer: no longer than to the end of the time, if that is not over yet."""
        pause, left = OTHERS.after(self.attempt), self.deadline - self.clock()
        self.attempt += 1
        self.sleep(min(pause, left) if left > 0 else pause)
