"""Watch whether committers give signs of life, by this process's own clock.

A sign has the time of the clock of the machine that gave it, which may be hours ahead: then a process
that has died would look alive for as long. So a sign from the future is doubtful, until it changes while
it is watched, or does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ray_committer.job_files import owners
from ray_committer.job_files.other_jobs import OtherJob
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Heartbeat

Sign = tuple[str, Heartbeat | None]


@dataclass(slots=True)
class Watch:
    """The last sign of each job, when it was first seen, and whether it has changed since the first."""

    clock: Callable[[], float] = time.monotonic
    _seen: dict[JobAttempt, tuple[Sign, float, bool]] = field(default_factory=dict)

    def judge(self, other: OtherJob) -> OtherJob:
        """Return the job as it is known now that it was seen once more: its committer is alive if its
        sign has changed, and dead if it has not for `owners.DEAD_SECONDS`."""
        sign, now = (other.seen.state.nonce, other.beat), self.clock()
        last, since, has_changed = self._seen.get(other.job, (sign, now, False))
        if last != sign:
            since, has_changed = now, True
        self._seen[other.job] = sign, since, has_changed
        is_silent = now - since >= owners.DEAD_SECONDS
        is_alive = other.is_alive or (has_changed and not other.has_ended)
        is_doubtful = other.is_doubtful and not has_changed and not is_silent
        return replace(other, is_alive=is_alive and not is_silent, is_doubtful=is_doubtful)


def until_certain(
    look: Callable[[], Iterable[OtherJob]],
    *,
    pause: Sleep = waiting.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[OtherJob]:
    """Look at jobs, again while it is doubtful whether the committer of one is alive: for at most
    `owners.DEAD_SECONDS`, and hardly ever more than once."""
    watch = Watch(clock)
    while True:
        found = [watch.judge(one) for one in look()]
        if not any(one.is_doubtful for one in found):
            return found
        pause(waiting.LOOK_SECONDS)
