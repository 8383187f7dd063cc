"""Report how the store throttles a commit, during the commit and at its end."""

from __future__ import annotations

import time
from dataclasses import asdict

from ray_committer.errors import RayCommitterError
from ray_committer.events import Notice, Throttled
from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, count
from ray_committer.stages.context import JobContext

EVERY_SECONDS = 1.0


class ThrottlingWatch:
    """Query the request limit after a throttled shard, at most once per second."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._asked = float("-inf")

    def look(self, statistics: IOStatistics) -> None:
        """Send an event if a shard's `statistics` contain throttled requests."""
        now = time.monotonic()
        throttled = statistics.counters.get(names.STORE_IO_THROTTLED, 0)
        if throttled and now - self._asked >= EVERY_SECONDS:
            self._asked = now
            _tell(self._context, _statistics(self._context), latest_only=True)


def note_limit(context: JobContext) -> LimitStatistics:
    """Report how many requests the store accepted per second, with a notice if it throttled any."""
    limit = _statistics(context)
    counted = context.journal.statistics.counters.get(names.STORE_IO_THROTTLED, 0)
    if limit.throttled > counted:  # other work, or lost results
        context.journal.add(count(names.STORE_IO_THROTTLED, limit.throttled - counted))
    _tell(context, limit, latest_only=False)
    if limit.throttled and limit.lowest is not None:  # only sent: the report has its own text
        context.emit(
            Notice(
                f"the store throttled {limit.throttled:,} of {limit.requests:,} requests; the commit "
                f"went down to {limit.lowest:,.0f} per second and ended at {limit.last or 0:,.0f}"
            )
        )
    return limit


def _statistics(context: JobContext) -> LimitStatistics:
    try:
        return context.executor.limit_statistics()
    except RayCommitterError:  # the process with the limit is gone, and so is the commit
        return LimitStatistics()


def _tell(context: JobContext, limit: LimitStatistics, *, latest_only: bool) -> None:
    for number, span in enumerate(limit.spans):
        if not latest_only or number == len(limit.spans) - 1:
            rate = span.lowest if limit.last is None else limit.last
            context.emit(Throttled(**asdict(span), number=number, rate=rate))
