"""What the limit of requests does is reported while it does it, and once more at the end."""

from __future__ import annotations

import pytest

from ray_committer.errors import CommitStateUnknownError
from ray_committer.events import Event, Notice, Throttled, ThrottledSpan
from ray_committer.executors.inline import InlineExecutor
from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, count
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.throttling import ThrottlingWatch, note_limit
from ray_committer.testing import MemoryStore
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, context

FIRST = ThrottledSpan(9.0, 7.0, 4, before=100.0, lowest=50.0, recovered_seconds_ago=6.0)
LAST = ThrottledSpan(3.0, 1.0, 6, before=100.0, lowest=25.0, recovered_seconds_ago=None)
REFUSED = count(names.STORE_IO_THROTTLED, 10)


class Limited(InlineExecutor):
    """Its limit did this; with None nobody can be asked any more."""

    def __init__(self, told: LimitStatistics | None) -> None:
        super().__init__(lambda permits: Worker(MemoryStore(), JOB, permits, in_driver=True))
        self.told = told

    def limit_statistics(self) -> LimitStatistics:
        if self.told is None:
            raise CommitStateUnknownError("whoever knew has gone")
        return self.told


def watched(told: LimitStatistics | None) -> tuple[JobContext, list[Event]]:
    events: list[Event] = []
    return context(MemoryStore(), executor=Limited(told), emit=events.append), events


BOTH = LimitStatistics(1000, 10, 100.0, 25.0, 60.0, (FIRST, LAST))


def test_a_store_that_refuses_nothing_is_not_spoken_of():
    found, events = watched(LimitStatistics(requests=1000))
    ThrottlingWatch(found).look(IOStatistics())
    assert note_limit(found).requests == 1000
    assert events == []
    assert found.journal.statistics.counters == {}


def test_a_shard_that_was_throttled_reports_the_latest_span():
    found, events = watched(BOTH)
    ThrottlingWatch(found).look(REFUSED)
    assert events == [Throttled(3.0, 1.0, 6, before=100.0, lowest=25.0, number=1, rate=60.0)]


def test_a_shard_that_was_not_throttled_reports_nothing():
    found, events = watched(BOTH)
    ThrottlingWatch(found).look(IOStatistics())
    assert events == []


def test_the_end_reports_every_span_and_one_sentence():
    found, events = watched(BOTH)
    assert note_limit(found) == BOTH
    assert [event.number for event in events if isinstance(event, Throttled)] == [0, 1]
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "throttled 10 of 1,000 requests" in notice.text
    assert "went down to 25 per second and ended at 60" in notice.text


@pytest.mark.parametrize(("counted", "added"), [(0, 10), (4, 6), (10, 0), (12, 0)])
def test_refusals_that_no_shard_has_reported_are_added_once(counted: int, added: int):
    found, _ = watched(BOTH)
    found.journal.add(count(names.STORE_IO_THROTTLED, counted))
    note_limit(found)
    assert found.journal.statistics.counters[names.STORE_IO_THROTTLED] == counted + added


def test_a_limit_that_can_no_longer_be_asked_is_not_an_error():
    found, events = watched(None)
    ThrottlingWatch(found).look(REFUSED)
    assert note_limit(found) == LimitStatistics()
    assert events == []
