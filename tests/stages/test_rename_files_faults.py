"""Renaming all files of a job: what it asks, what it counts, and what each fault leaves."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

import ray_committer.stages.rename_files as rename_files_module
from ray_committer.errors import CommitCancelledError, CommitStateUnknownError
from ray_committer.events import Event, FilesRenamed
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.plan import count_by_pack
from ray_committer.protocol.record import ReplacedFile, encode
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.success import MAX_FILENAMES
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.rename_files import Pass, rename_files
from ray_committer.stages.run.renamed import Renamed, reconcile
from ray_committer.testing import Identity, MemoryStore, WrappedStore, visible_files
from ray_committer.testing import write_job as write_tasks
from tests.stages.support import (
    JOB,
    at,
    context,
    pack_of,
    record,
    requests,
    resumed,
    source_path,
    staged_name,
)


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename_files_module, "ATTEMPTS", 1)


def with_files(
    tasks: int, files: int = 3, identity: Identity = Identity.MODIFICATION_TIME
) -> MemoryStore:
    """A recorded job of so many tasks with so many files each, whose directories are made."""
    store = MemoryStore(identity=identity)
    each = {n: {f"p={n}/f{file}": b"x" * n for file in range(files)} for n in range(tasks)}
    write_tasks(store, JOB, each)
    for task in range(tasks):
        store.mkdirs(f"/table/p={task}")
    record(store)
    return store


def move(found: JobContext) -> Renamed:
    """Load what is recorded and rename it, as a commit does, and count."""
    (named, packs), renamed = resumed(found), Renamed()
    rename_files(found, named, packs, renamed)
    reconcile(found, packs, renamed)
    return renamed


@pytest.mark.parametrize(("tasks", "files"), [(0, 0), (1, 0), (1, 1), (4, 25), (40, 2)])
def test_each_file_is_moved_once_and_counted(tasks: int, files: int):
    store = with_files(tasks, files)
    renamed = move(context(store))
    assert (renamed.moved, renamed.files) == (tasks * files, tasks * files)
    assert renamed.bytes == sum(files * number for number in range(tasks))
    assert store.files(JOB.tasks) == {}
    assert len(visible_files(store, "/table")) == tasks * files


@pytest.mark.parametrize("identity", list(Identity))
def test_renaming_costs_one_request_per_file_and_no_read_of_a_pack_that_is_known(identity: Identity):
    store = with_files(4, 25, identity)
    loads = requests(store, lambda one: resumed(context(one)))
    assert requests(store, lambda one: move(context(one))) - loads == Counter(rename=100)


def test_what_an_earlier_run_moved_is_proved_and_counted():
    store = with_files(3)
    for name in ("f0", "f1"):
        store.rename(source_path(1, f"p=1/{name}"), f"/table/p=1/{name}")
    renamed = move(context(store))
    assert (renamed.moved, renamed.proved) == (7, {Proof.MODIFICATION_TIME: 2})
    assert renamed.bytes == 3 * 0 + 3 * 1 + 3 * 2
    _, packs = resumed(context(store))
    assert count_by_pack(packs.packs, renamed.spans) == {0: 9}


def test_names_for_the_marker_are_kept_up_to_a_limit():
    assert move(context(with_files(1, 2))).sample == [f"memory://test/table/p=0/f{n}" for n in (0, 1)]
    assert len(move(context(with_files(4, 50))).sample) == MAX_FILENAMES


def test_the_last_event_reports_that_all_is_done():
    events: list[Event] = []
    move(context(with_files(3), emit=events.append))
    last = [event for event in events if isinstance(event, FilesRenamed)][-1]
    assert last == FilesRenamed(9, 9, bytes_done=9, bytes_total=9)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
@pytest.mark.parametrize("end", ["p=0/f0", "p=1/f1", "p=2/f2"])
def test_a_file_that_cannot_be_moved_stops_the_stage_and_the_next_run_moves_it(end: str, error):
    store = with_files(3)
    faulty = WrappedStore(store, before=at("rename", error(5, "simulated"), end))
    with pytest.raises(CommitStateUnknownError, match=f"{end}: could not be renamed"):
        move(context(faulty))
    assert f"/table/{end}" not in store.files()
    renamed = move(context(store))
    assert renamed.files == 9
    assert len(visible_files(store, "/table")) == 9


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileNotFoundError, FileExistsError])
def test_answers_that_are_lost_are_proved_and_no_file_is_missed(error: type[OSError]):
    store = with_files(3)
    renamed = move(context(WrappedStore(store, after=at("rename", error("lost")))))
    assert (renamed.moved, renamed.proved.total()) == (0, 9)
    assert len(visible_files(store, "/table")) == 9


def test_a_pack_that_cannot_be_read_again_moves_nothing_of_its_files():
    store = with_files(2)
    named, manifests = resumed(context(store))
    fresh = context(WrappedStore(store, before=at("read", PermissionError("denied"))))
    with pytest.raises(PermissionError):
        rename_files(fresh, named, manifests, Renamed())
    assert visible_files(store, "/table") == {}


def test_a_cancelled_commit_moves_no_file():
    store = with_files(2)
    found = context(store)
    named, manifests = resumed(found)
    found.cancelled.cancel()
    with pytest.raises(CommitCancelledError):
        rename_files(found, named, manifests, Renamed())
    assert visible_files(store, "/table") == {}


def partly_whole() -> tuple[MemoryStore, str]:
    """A recorded job, of which one partition of three was moved whole; its source."""
    store = MemoryStore()
    named = [f"p={n}/{staged_name('f', task)}" for task in (0, 1) for n in range(3)]
    write_tasks(store, JOB, {task: dict.fromkeys(named[3 * task :][:3], b"xy") for task in (0, 1)})
    record(store)
    source = source_path(0, named[1]).rpartition("/")[0]
    store.move_directory(source, "/table/p=1")
    store.mkdirs("/table/p=0")
    store.mkdirs("/table/p=2")
    return store, source.removeprefix(JOB.tasks + "/")


def rename_the_rest(store, renamed: Renamed, which: Pass = Pass.ALL) -> Renamed:
    found = context(store)
    named, packs = resumed(found)
    rename_files(found, named, packs, renamed, which)
    reconcile(found, packs, renamed)
    return renamed


@pytest.mark.parametrize("which", [Pass.ALL, Pass.NEW])
@pytest.mark.usefixtures("small_shards")
def test_files_that_were_moved_with_their_directory_are_not_asked_for(which: Pass):
    store, source = partly_whole()
    renamed = Renamed(in_place=frozenset([source]), whole_files=2)
    loads = requests(store, lambda one: resumed(context(one)))
    found = requests(store, lambda one: rename_the_rest(one, renamed, which))
    assert found - loads == Counter(rename=4)
    assert (renamed.moved, renamed.bytes) == (4, 8)
    assert len(visible_files(store, "/table")) == 6


@pytest.mark.parametrize("files", [0, 1, 3])
def test_a_directory_counts_for_the_files_that_packs_name_in_it(files: int):
    """One that was counted twice would hide another that is missing."""
    store, source = partly_whole()
    renamed = Renamed(in_place=frozenset([source]), whole_files=files)
    with pytest.raises(CommitStateUnknownError, match=f"names 2 files of .* but these held {files}"):
        rename_the_rest(store, renamed)


@pytest.mark.parametrize("done", [{0: 5}, {}, {0: 7}])
def test_another_number_of_files_than_recorded_is_named_by_its_pack(done: dict[int, int]):
    found = context(with_files(2))
    _, packs = resumed(found)
    with pytest.raises(CommitStateUnknownError, match=f"{JOB.packs}/.*: names 6 files"):
        reconcile(found, packs, Renamed(done_by_pack=Counter(done)))
    reconcile(found, packs, Renamed(done_by_pack=Counter({0: 6})))
    reconcile(found, packs, Renamed(done_by_pack=Counter({0: 5}), held_by_pack=Counter({0: 1})))


WHOLE = [(0, 2), (2, 5), (5, 6)]
"""Three shards of two packs with three files each."""


def two_packs() -> LoadedManifests:
    return LoadedManifests(2, (pack_of(3), pack_of(3)), IOStatistics())


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        WHOLE[:2],
        WHOLE[1:],
        [WHOLE[0], WHOLE[2]],
        [*WHOLE, WHOLE[1]],
        [(0, 3), (2, 5), (5, 6)],
        [(0, 1), (0, 1), (2, 3), (3, 6)],
    ],
)
def test_a_shard_that_is_missing_or_counted_twice_is_found(wrong: list[tuple[int, int]]):
    found = context(MemoryStore())
    with pytest.raises(CommitStateUnknownError, match="names 3 files, but"):
        reconcile(found, two_packs(), Renamed(spans=wrong))
    reconcile(found, two_packs(), Renamed(spans=WHOLE[::-1]))


def test_shards_that_are_whole_and_others_are_counted_together():
    found = context(MemoryStore())
    counted = Counter({0: 1, 1: 2})
    reconcile(found, two_packs(), Renamed(spans=[(0, 2), (5, 6)], done_by_pack=counted))
    with pytest.raises(CommitStateUnknownError, match="names 3 files, but 4 were moved"):
        reconcile(found, two_packs(), Renamed(spans=WHOLE, done_by_pack=Counter({1: 1})))


def old(store: MemoryStore, *names: str) -> list[ReplacedFile]:
    """Old files, as the record of a job names them that writes their names again."""
    for name in names:
        store.write(f"/table/{name}", b"old")
    found = [store.get_status(f"/table/{name}") for name in names]
    return [
        ReplacedFile(one.path, one.size, one.modified_milliseconds, one.etag) for one in found if one
    ]


def with_namesakes() -> MemoryStore:
    """A recorded job of which two of six files take the names of old ones."""
    store = with_files(2)
    named, _ = resumed(context(store))
    overwritten = old(store, "p=0/f0", "p=1/f1")
    store.write(JOB.content("nonce"), encode(structs.replace(named, overwritten=overwritten)))
    return store


def passes(store, *which: Pass) -> list[Renamed]:
    found = context(store)
    named, manifests = resumed(found)
    done = []
    for one in which:
        renamed = Renamed()
        rename_files(found, named, manifests, renamed, one)
        done.append(renamed)
    return done


def test_namesakes_of_old_files_are_held_back_until_all_others_are_in_place():
    store = with_namesakes()
    new, namesakes = passes(store, Pass.NEW, Pass.NAMESAKES)
    assert (new.moved, new.held_by_pack.total()) == (4, 2)
    assert sum(stop - start for start, stop in new.spans) + new.done_by_pack.total() == 4
    assert (namesakes.moved, namesakes.held_by_pack.total()) == (2, 0)
    assert set(visible_files(store, "/table").values()) == {b"", b"x"}


def test_an_old_file_stays_while_its_namesake_is_held_back():
    store = with_namesakes()
    passes(store, Pass.NEW)
    assert store.read("/table/p=0/f0") == store.read("/table/p=1/f1") == b"old"
    assert sorted(store.files(JOB.tasks)) == [source_path(0, "p=0/f0"), source_path(1, "p=1/f1")]


def test_a_namesake_whose_source_is_gone_stops_the_commit_while_every_old_file_is_there():
    store = with_namesakes()
    store.delete_file(source_path(1, "p=1/f1"))
    with pytest.raises(CommitStateUnknownError, match="p=1/f1"):
        passes(store, Pass.NEW)
    assert store.read("/table/p=0/f0") == store.read("/table/p=1/f1") == b"old"


def test_a_run_of_a_sealed_job_moves_and_proves_everything():
    store = with_namesakes()
    passes(store, Pass.NEW)
    (everything,) = passes(store, Pass.ALL)
    assert (everything.moved, everything.files) == (2, 6)
