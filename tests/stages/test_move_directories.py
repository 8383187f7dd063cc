"""Moving all directories that go whole: what the stage asks, counts and leaves to be moved by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from ray_committer.errors import CommitCancelledError, CommitStateUnknownError, StoreUnavailableError
from ray_committer.events import Event, FilesRenamed, ShardRenamed
from ray_committer.executors.base import Item, Result, Work
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import join
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.whole import ByFile, WholePlan
from ray_committer.stages.context import JobContext
from ray_committer.stages.move_directories import move_directories
from ray_committer.stages.run.renamed import Renamed
from ray_committer.testing import MemoryStore, WrappedStore
from ray_committer.testing.faults import StoreCall
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, at, context, pack_of, record_of, requests
from tests.stages.whole import FILES, TASKS, move_of, moves_of, with_source

pytestmark = pytest.mark.usefixtures("no_pauses")
MOST = 3 * 7
RECORD = record_of([pack_of(MOST + 2, 50)])
"""Of a job with two files more, which are moved one by one."""


def with_sources(number: int = 7) -> tuple[MemoryStore, WholePlan]:
    """A store with sources, each of which has a partition, and the plan to move all."""
    store = MemoryStore()
    for source in map(_source, range(number)):
        with_source(store, source)
    moves = tuple(move_of(store, f"/table/p={n}", _source(n)) for n in range(number))
    return store, WholePlan(moves_of(moves), Counter({ByFile.OWN_NAMES: 2}))


def _source(number: int) -> str:
    return f"in/{number:032x}"


def move(found: JobContext, plan: WholePlan) -> Renamed:
    renamed = Renamed()
    move_directories(found, RECORD, plan, renamed)
    return renamed


def of_job(store, **given) -> JobContext:
    """The context of a job whose tasks' files are frozen."""
    return context(store, job=JOB.with_frozen_tasks("nonce"), **given)


def test_each_directory_is_moved_by_one_request_and_its_files_are_counted():
    store, plan = with_sources()
    done: list[Renamed] = []
    assert requests(store, lambda one: done.append(move(of_job(one), plan))) == Counter(move_whole=7)
    (renamed,) = done
    assert (renamed.moved, renamed.bytes, renamed.whole_files) == (MOST, 6 * 7, MOST)
    assert renamed.in_place == {one.source for one in plan.moves}
    assert renamed.directories == 7
    assert renamed.by_file == {ByFile.OWN_NAMES: 2}
    assert store.files() == {f"/table/p={n}/{name}": FILES[name] for n in range(7) for name in FILES}


def test_directories_that_an_earlier_run_moved_are_proved_and_counted_once():
    store, plan = with_sources()
    for one in plan.moves[:3]:
        store.move_whole(join(TASKS, one.source), one.dest)
    renamed = move(of_job(store), plan)
    assert (renamed.moved, renamed.proved) == (12, {Proof.MODIFICATION_TIME: 9})
    assert (renamed.files, renamed.whole_files) == (MOST, MOST)
    assert renamed.statistics.counters[names.FILES_COMMITTED] == MOST


def test_the_last_event_reports_that_all_is_done():
    store, plan = with_sources()
    events: list[Event] = []
    move(of_job(store, emit=events.append), plan)
    assert [one for one in events if isinstance(one, FilesRenamed)][-1] == FilesRenamed(
        MOST, MOST + 2, bytes_done=42, bytes_total=50
    )
    assert sum(one.files for one in events if isinstance(one, ShardRenamed)) == MOST


def test_what_is_there_or_refused_is_left_to_be_moved_by_file_and_a_notice_says_why():
    store, plan = with_sources()
    store.mkdirs("/table/p=1")
    denied = at("move_whole", PermissionError(13, "not yours"), "p=2")
    found = of_job(WrappedStore(store, before=denied))
    renamed = move(found, plan)
    assert renamed.in_place == {one.source for one in plan.moves} - {_source(1), _source(2)}
    assert (renamed.files, renamed.whole_files) == (15, 15)
    assert renamed.by_file == {ByFile.OWN_NAMES: 2, ByFile.THERE: 1, ByFile.REFUSED: 1}
    (notice,) = found.journal.notices
    assert "1 directories could not be moved whole" in notice
    assert "not yours" in notice


def test_leftovers_go_before_their_directory_is_seen_and_no_others():
    store, _ = with_sources()
    for number in range(7):
        store.write(join(TASKS, _source(number), "left"), b"rows of nobody")
    seen: list[str] = []

    def look(call: StoreCall) -> None:
        seen.extend(path for path in store.files("/table") if path.endswith("/left") and "/p=" in path)

    moves = tuple(move_of(store, f"/table/p={n}", _source(n), ("left",)) for n in range(7))
    renamed = move(of_job(WrappedStore(store, after=look)), WholePlan(moves_of(moves)))
    assert seen == []
    assert renamed.whole_files == MOST


def test_a_directory_whose_leftover_stays_is_left_to_be_moved_by_file():
    store, _ = with_sources(2)
    store.write(join(TASKS, _source(1), "left"), b"rows of nobody")
    store.write(join(TASKS, _source(1), "left too"), b"rows of nobody")
    moves = (
        move_of(store, "/table/p=0", _source(0)),
        move_of(store, "/table/p=1", _source(1), ("left", "left too")),
    )
    made: list[str] = []

    def deny(call: StoreCall) -> None:
        if call.operation == "delete_file":
            raise PermissionError(13, "denied")
        if call.operation == "mkdirs":
            made.append(call.paths[0])

    renamed = move(of_job(WrappedStore(store, before=deny)), WholePlan(moves_of(moves)))
    assert renamed.in_place == {_source(0)}
    assert made == ["/table/p=1"], "the directory is made once, not at each file that misses it"
    assert store.list_status("/table/p=1") == []


def test_after_an_error_nothing_is_begun_and_the_next_run_moves_the_rest():
    store, plan = with_sources()
    lost = at("move_whole", StoreUnavailableError(5, "lost"), "p=3")
    with pytest.raises(CommitStateUnknownError, match="p=3"):
        move(of_job(WrappedStore(store, before=lost)), plan)
    assert store.get_status("/table/p=4") is None
    assert move(of_job(store), plan).files == MOST


def test_a_cancelled_commit_moves_nothing():
    store, plan = with_sources()
    before = store.files()
    with pytest.raises(CommitCancelledError):
        move(of_job(store, cancelled=True), plan)
    assert store.files() == before


class Forgetful(InlineExecutor):
    """Gives the first result in the place of the last one."""

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        results = [*super().run(work, items)]
        return iter([*results[:-1], results[0]])


def test_a_shard_that_is_counted_twice_does_not_stand_for_one_that_is_missing():
    store, plan = with_sources()
    executor = Forgetful(lambda permits: Worker(store, JOB, permits, in_driver=True))
    with pytest.raises(CommitStateUnknownError, match="of 7 directories not each was moved once"):
        move(of_job(store, executor=executor), plan)
