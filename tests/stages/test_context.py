"""A stage is timed and reported whether it fails or not; what was cancelled begins nothing new."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import CommitCancelledError
from ray_committer.events import Event, Notice, StageEnded, StageStarted
from ray_committer.options import CommitOptions
from ray_committer.stages.context import JobContext
from ray_committer.testing import MemoryStore, SimulatedCrash
from tests.stages.support import JOB, SyncedStore, context, record_of, requests


def listened() -> tuple[JobContext, list[Event]]:
    events: list[Event] = []
    return context(MemoryStore(), emit=events.append), events


def fail(found: JobContext, name: str, error: BaseException) -> None:
    with found.stage(name):
        raise error


def test_a_stage_is_reported_when_it_begins_and_when_it_ends():
    found, events = listened()
    with found.stage("one"):
        assert events == [StageStarted("one")]
    assert isinstance(events[1], StageEnded)
    assert (events[1].stage, events[1].error) == ("one", None)
    assert found.journal.seconds.keys() == {"one"}
    assert found.journal.failed_stage is None


def test_a_stage_that_runs_twice_counts_twice():
    found, events = listened()
    for _ in range(2):
        with found.stage("one"):
            pass
    ended = [event.seconds for event in events if isinstance(event, StageEnded)]
    assert len(ended) == 2
    assert found.journal.seconds["one"] == sum(ended)


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("why"), "why"), (SimulatedCrash(), "ended by a signal")]
)
def test_a_stage_that_fails_is_noted_with_its_error_which_passes(error: BaseException, text: str):
    found, events = listened()
    with pytest.raises(type(error)):
        fail(found, "one", error)
    assert isinstance(events[1], StageEnded)
    assert events[1].error == text
    assert found.journal.failed_stage == "one"


def test_the_innermost_stage_is_the_one_that_failed():
    found, _ = listened()

    def outer() -> None:
        with found.stage("outer"):
            fail(found, "inner", ValueError("why"))

    with pytest.raises(ValueError, match="why"):
        outer()
    assert found.journal.failed_stage == "inner"


def test_the_requests_of_a_stage_are_counted_once():
    found, _ = listened()
    for _ in range(2):
        with found.stage("one"):
            found.store.mkdirs("/table")
    assert found.journal.statistics.counters["op_mkdirs"] == 2


def test_a_cancelled_commit_begins_no_stage_but_those_after_the_commit_point():
    found, events = listened()
    found.cancelled.cancel()
    with pytest.raises(CommitCancelledError, match="run the same command to finish it"):
        fail(found, "one", AssertionError("the stage must not begin"))
    assert events == []
    with found.stage("clean up", cancellable=False):
        assert events == [StageStarted("clean up")]


def test_items_are_given_out_until_the_commit_is_cancelled():
    found, _ = listened()
    given = found.until_cancelled(range(5))
    assert [next(given), next(given)] == [0, 1]
    found.cancelled.cancel()
    assert list(given) == []


@pytest.mark.parametrize(
    ("asked", "promised", "durable"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_a_commit_is_as_durable_as_it_was_asked_or_promised_to_be(asked, promised, durable: bool):
    found = context(SyncedStore(), CommitOptions(durable=asked))
    assert found.as_recorded(record_of(durable=promised)).syncs is durable


@pytest.mark.parametrize(
    ("store", "durable", "synced"),
    [(SyncedStore(), True, 2), (SyncedStore(), False, 0), (MemoryStore(), True, 0)],
)
def test_paths_are_forced_to_disk_only_where_that_is_needed(store, durable: bool, synced: int):
    store.mkdirs(JOB.directory)
    options = CommitOptions(durable=durable)
    found = requests(store, lambda one: context(one, options).sync("/table", JOB.directory))
    assert found == Counter(sync=synced) + Counter()


def test_a_notice_goes_to_the_listener_and_into_the_report():
    found, events = listened()
    found.notice("look at this")
    assert events == [Notice("look at this")]
    assert found.journal.notices == ["look at this"]
