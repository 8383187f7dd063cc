"""Checkpoints of a table: the state from one is that from the log, and none is ever needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer.tables.save_checkpoint as save_module
from ray_committer.errors import (
    StoreUnavailableError,
    TableLogError,
    TableLogGoneError,
    TableVersionGoneError,
)
from ray_committer.protocol.file_list import MOST_INLINE, ListedFile
from ray_committer.protocol.table_checkpoint import Checkpoint
from ray_committer.protocol.table_entry import encode_content
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import Files, TableState, follow
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.append import append
from ray_committer.tables.checkpoint import (
    ENTRIES,
    FILES,
    FilesAt,
    changes_of,
    is_due,
    is_due_between,
    read_files,
    read_state,
)
from ray_committer.tables.file_sets import read_file_set, save_file_set
from ray_committer.tables.log import find_head, read_entries
from ray_committer.tables.save_checkpoint import save_checkpoint, shares
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at, fail_at
from tests.stages.support import KINDS, context, do_at, requests
from tests.tables.support import TABLE, abort_of, append_commit, claim_of, table_on

pytestmark = pytest.mark.usefixtures("no_pauses")

JOB = {"job_id": "many", "job_attempt": 0}


def a_file(job: int, day: int = 1) -> ListedFile:
    return ListedFile(f"day={day}/{job}", job, modified_milliseconds=job)


def with_jobs(store: MemoryStore) -> MemoryStore:
    """A table with 8 versions: two appends, an overwrite, an aborted claim, and one in flight."""
    table_on(store)
    append_commit(store, "a", [a_file(1), a_file(2, day=2)])
    append_commit(store, "b", [a_file(3)], [a_file(1)])
    version = append(store, TABLE, claim_of("c", [a_file(4)]), 0)
    append(store, TABLE, abort_of(version), 0)
    append(store, TABLE, claim_of("d", [a_file(5)]), 0)
    return store


FILES_OF_JOBS: Files = {
    "day=1": {"day=1/3": a_file(3)},
    "day=2": {"day=2/2": a_file(2, day=2)},
}


def save(store: StoreOperations, until: int | None = None, table: TablePlaces = TABLE) -> str | None:
    """Save a checkpoint at a version."""
    return save_checkpoint(store, table, "id", until)


# States


def test_the_state_is_that_of_the_log(kind):
    memory = with_jobs(kind())
    state, files = read_files(memory, TABLE, "id")
    assert files == FILES_OF_JOBS
    assert (state.version, [one.version for one in state.in_flight]) == (8, [8])
    assert [one.claim.job_id for one in state.in_flight] == ["d"]
    assert read_state(memory, TABLE, "id") == state


@pytest.mark.parametrize("at", range(9))
def test_a_state_from_a_checkpoint_is_the_same(kind, at: int):
    memory = with_jobs(kind())
    wanted = [read_files(memory, TABLE, "id", until) for until in range(9)]
    assert save(memory, at) is None
    for until in range(9):
        assert read_files(memory, TABLE, "id", until) == wanted[until]
        assert read_state(memory, TABLE, "id", until) == wanted[until][0]


def test_a_checkpoint_is_read_in_place_of_the_entries_before_it(kind):
    memory = with_jobs(kind())
    save(memory, 7)
    found = requests(memory, lambda one: read_state(one, TABLE, "id"))
    assert found == Counter(list_status=2, read=2)


def test_the_state_of_a_local_table_is_read_back(store, table: TablePlaces):
    table_on(store, table)
    append_commit(store, "a", [a_file(1)], table=table)
    assert save(store, table=table) is None
    append_commit(store, "b", [a_file(2)], [a_file(1)], table=table)
    state, files = read_files(store, table, "id")
    assert (state.version, files) == (5, {"day=1": {"day=1/2": a_file(2)}})
    assert store.list_files(table.temporaries) == []


def test_an_empty_table_has_no_files(kind):
    assert read_files(table_on(kind()), TABLE, "id") == (TableState(), {})


@pytest.mark.parametrize(
    ("entries", "files", "due"),
    [(ENTRIES - 1, FILES - 1, False), (ENTRIES, 0, True), (1, FILES, True), (0, 0, False)],
)
def test_a_checkpoint_is_due_after_many_entries_or_files(entries: int, files: int, due: bool):
    assert is_due(entries, files) is due


# Parts


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_parts_that_have_not_changed_are_shared(kind):
    memory = table_on(kind())
    append_commit(memory, "a", [ListedFile(f"day={day}/a", 1) for day in range(MOST_INLINE)])
    save(memory)
    append_commit(memory, "b", [a_file(2)])
    calls = requests(memory, save)
    assert calls["replace"] == 2  # the part that was changed, and the checkpoint
    assert len(memory.files(TABLE.parts)) == 2
    before = memory.files(TABLE.checkpoints)
    assert requests(memory, save)["replace"] == 1
    assert memory.files(TABLE.checkpoints) == before


def test_a_part_that_was_cut_is_saved_again(kind):
    memory = with_jobs(kind())
    save(memory)
    (part,) = memory.files(TABLE.parts)
    memory.write(part, memory.read(part)[:-1])
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS
    append(memory, TABLE, abort_of(8), 0)
    save(memory)
    memory.delete_file(TABLE.entry(1))  # so that only a checkpoint can be read
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS


@pytest.mark.parametrize("bad", [b"", b"{}", b'{"format":2}'])
def test_a_checkpoint_that_cannot_be_read_is_passed_over(kind, bad: bytes):
    memory = with_jobs(kind())
    save(memory, 3)
    save(memory, 8)
    memory.write(TABLE.checkpoint(8), bad)
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS
    assert requests(memory, lambda one: read_state(one, TABLE, "id"))["read"] == 2 + 5


def test_a_checkpoint_whose_part_is_gone_is_passed_over(kind):
    memory = with_jobs(kind())
    save(memory, 2)
    kept = memory.files(TABLE.parts)
    save(memory, 8)
    for part in memory.files(TABLE.parts).keys() - kept.keys():
        memory.delete_file(part)
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS


def test_a_checkpoint_of_another_table_or_version_is_passed_over(kind):
    memory = with_jobs(kind())
    state, files = read_files(memory, TABLE, "id", 2)
    other = Checkpoint(table_id="another table", state=TableState(2))
    memory.mkdirs(TABLE.checkpoints)
    memory.write(TABLE.checkpoint(2), encode_content(other))
    save(memory, 3)
    memory.write(TABLE.checkpoint(7), memory.read(TABLE.checkpoint(3)))
    assert read_files(memory, TABLE, "id", 2) == (state, files)
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS


def test_a_log_that_ends_before_its_checkpoint_is_an_error(kind):
    memory = with_jobs(kind())
    save(memory)
    memory.delete_file(TABLE.entry(8))
    with pytest.raises(TableLogGoneError, match=r"008\.entry: is gone"):
        read_state(memory, TABLE, "id")


def test_a_version_that_is_not_there_is_an_error(kind):
    memory = with_jobs(kind())
    for read in (read_state, read_files):
        with pytest.raises(TableVersionGoneError, match="has no version 9, the last one is 8"):
            read(memory, TABLE, "id", 9)


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_only_what_has_changed_is_read_and_written(kind):
    memory = table_on(kind())
    old = save_file_set(memory, TABLE, many(30_000), **JOB)
    append_commit(memory, "many", old, partitions=[""])
    save(memory)
    parts = memory.files(TABLE.parts).keys()
    append_commit(memory, "b", [a_file(7, day=2)], [ListedFile("day=2/29999", 29_999)])
    found: list[StoreCall] = []
    save_checkpoint(WrappedStore(memory, before=found.append), TABLE, "id")
    read = [call.paths[0] for call in found if call.operation == "read" and "/parts/" in call.paths[0]]
    put = [call.paths[-1] for call in found if call.operation == "replace"]
    assert len(read) == 1
    assert len(put) == 2
    assert len(memory.files(TABLE.parts).keys() - parts) == 1
    assert len(FilesAt(memory, TABLE, "id").below()) == 30_000


def test_many_changes_are_taken_in_shares(kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(save_module, "MOST_CHANGES", 3_000)
    memory = table_on(kind())
    old = save_file_set(memory, TABLE, many(25_000), **JOB)
    append_commit(memory, "many", old)
    _, commits = follow(TableState(), read_entries(memory, TABLE))
    found = [len(changes_of(memory, TABLE, commits, one)) for one in shares(memory, TABLE, commits)]
    assert sum(found) == 25_000
    assert len(found) == 9
    assert max(found) < 5_000
    assert save(memory) is None
    memory.delete_file(TABLE.entry(1))  # so that only the checkpoint can be read
    assert FilesAt(memory, TABLE, "id").below() == sorted(many(25_000), key=lambda file: file.path)


def test_a_directory_is_read_from_its_part_alone(kind):
    memory = table_on(kind())
    files = [ListedFile(f"day={number // 1000:02d}/{number}", 1) for number in range(30_000)]
    added = save_file_set(memory, TABLE, files, **JOB)
    append_commit(memory, "many", added, partitions=[""])
    save(memory)
    for until in (None, 2):
        found = requests(
            memory, lambda one, until=until: FilesAt(one, TABLE, "id", until).below("day=17")
        )
        assert found == Counter(list_status=2, read=2)
    of_day = [file for file in files if file.path.startswith("day=17/")]
    assert FilesAt(memory, TABLE, "id").below("day=17") == sorted(of_day, key=lambda file: file.path)
    assert FilesAt(memory, TABLE, "id").below("day=1") == []


def test_file_lists_of_other_partitions_are_not_read(kind):
    memory = table_on(kind())
    append_commit(memory, "a", [a_file(1)])
    elsewhere = [ListedFile(f"day=2/{number}", 1) for number in range(MOST_INLINE + 1)]
    added = save_file_set(memory, TABLE, elsewhere, job_id="b", job_attempt=0)
    append_commit(memory, "b", added, partitions=["day=2"])
    memory.delete_file(TABLE.file_list("b", 0, added.lists[0].name))
    at_head = FilesAt(memory, TABLE, "id")
    assert at_head.below("day=1") == [a_file(1)]
    for directory in ("", "day=2"):
        with pytest.raises(TableLogError, match="is missing"):
            at_head.below(directory)


@pytest.mark.parametrize("damage", [b"", None])
def test_a_part_that_cannot_be_read_is_made_up_for_by_the_log(kind, damage: bytes | None):
    memory = with_jobs(kind())
    save(memory, 2)
    save(memory, 8)
    found = FilesAt(memory, TABLE, "id")
    for part in memory.files(TABLE.parts):
        if damage is None:
            memory.delete_file(part)
        else:
            memory.write(part, damage)
    assert found.below("day=1") == [a_file(3)]
    assert found.below() == [a_file(3), a_file(2, day=2)]
    assert found.state.version == 8


@pytest.mark.parametrize(
    ("versions", "files", "is_due"),
    [
        (range(61, 64), range(1), True),
        (range(61, 63), range(1), False),
        (range(64, 66), range(1), False),
        (range(61, 130), range(1), True),
        (range(2), range(49_999, 50_000), True),
        (range(2), range(50_000, 99_999), False),
    ],
)
def test_a_checkpoint_is_due_after_each_64_entries_and_each_50_000_files(
    versions: range, files: range, is_due: bool
):
    assert is_due_between(versions, files) is is_due


def test_a_checkpoint_that_is_not_due_any_more_is_not_saved(kind):
    memory = with_jobs(kind())
    assert save_checkpoint(memory, TABLE, "id", only_if_due=True) is None
    assert memory.files(TABLE.checkpoints) == {}
    many_files = save_file_set(memory, TABLE, many(FILES), **JOB)
    append_commit(memory, "many", many_files)
    save_checkpoint(memory, TABLE, "id", only_if_due=True)
    assert memory.get_status(TABLE.checkpoint(10)) is not None
    append_commit(memory, "after", [a_file(9)])
    save_checkpoint(memory, TABLE, "id", only_if_due=True)
    assert memory.get_status(TABLE.checkpoint(12)) is None


# Crashes and failures


def calls_of_a_checkpoint(new: Callable[[], MemoryStore]) -> list[StoreCall]:
    calls: list[StoreCall] = []
    memory = with_jobs(new())
    save(memory, 2)
    save_checkpoint(WrappedStore(memory, before=calls.append), TABLE, "id")
    assert len(calls) > 4
    return calls


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_a_checkpoint_is_saved_changes_no_state(kind, when: str):
    for call in calls_of_a_checkpoint(kind):
        memory = with_jobs(kind())
        save(memory, 2)
        wanted = read_files(memory, TABLE, "id")
        with pytest.raises(SimulatedCrash):
            save_checkpoint(WrappedStore(memory, **{when: crash_at(call.number)}), TABLE, "id")
        assert read_files(memory, TABLE, "id") == wanted
        assert save_checkpoint(memory, TABLE, "id") is None
        assert read_files(memory, TABLE, "id") == wanted


def test_a_crash_on_local_files_while_a_checkpoint_is_saved_changes_no_state(tmp_path: Path):
    store, calls = LocalStore(StoreSpec("file")), list[StoreCall]()
    for number in range(30):
        table = TablePlaces(str(tmp_path / f"table_{number}"))
        table_on(store, table)
        append_commit(store, "a", [a_file(1), a_file(2, day=2)], table=table)
        state, files = read_files(store, table, "id")
        crash = crash_at(number) if number else calls.append
        try:
            save_checkpoint(WrappedStore(store, after=crash), table, "id")
        except SimulatedCrash:
            assert 0 < number <= len(calls)
        assert read_files(store, table, "id") == (state, files)
    assert 4 < len(calls) < 30


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_checkpoint_that_fails_is_a_notice(kind, when: str):
    for call in calls_of_a_checkpoint(kind):
        memory = with_jobs(kind())
        save(memory, 2)
        wanted = read_files(memory, TABLE, "id")
        faulty = WrappedStore(memory, **{when: fail_at(call.number, PermissionError)})
        notice = save_checkpoint(faulty, TABLE, "id")
        assert notice is None or "checkpoint was not saved" in notice
        assert read_files(memory, TABLE, "id") == wanted


def test_a_checkpoint_torn_by_a_crash_is_passed_over(kind):
    memory = with_jobs(kind())
    torn = WrappedStore(memory, write_data=lambda _, data: data[: len(data) // 2])
    save(torn)
    assert read_files(memory, TABLE, "id")[1] == FILES_OF_JOBS


# File lists


def many(count: int) -> list[ListedFile]:
    return [ListedFile(f"day={number % 3}/{number:05d}", number) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "lists"), [(0, 0), (MOST_INLINE, 0), (MOST_INLINE + 1, 1), (25_000, 3)]
)
def test_many_files_are_saved_in_lists_and_read_back(store, table: TablePlaces, count: int, lists: int):
    table_on(store, table)
    for _ in range(2):  # another run of the commit saves lists of its own
        found = save_file_set(store, table, many(count), **JOB)
        assert read_file_set(store, table, found, **JOB) == many(count)
    assert len(store.list_files(table.file_lists)) == 2 * lists
    assert store.list_files(table.temporaries) == []


def test_a_list_whose_write_is_not_answered_is_saved_under_another_name(kind):
    def lost() -> None:
        raise StoreUnavailableError(TABLE.file_lists, "timed out")

    memory = table_on(kind())
    unanswered = WrappedStore(memory, after=do_at("write", lost, end=".z"))
    found = save_file_set(context(unanswered).store, TABLE, many(2_000), **JOB)
    names = [path.rpartition("/")[2] for path in memory.files(TABLE.file_lists)]
    assert len(names) == 2
    assert f"many-0-{found.lists[0].name}" in names
    assert read_file_set(memory, TABLE, found, **JOB) == many(2_000)


def test_a_list_takes_one_request(kind):
    memory = table_on(kind())
    found = requests(memory, lambda one: save_file_set(one, TABLE, many(25_000), **JOB))
    assert found - Counter(sync=9) == Counter(write=3)


def test_lists_of_a_table_whose_directory_is_gone_are_an_error(tmp_path: Path):
    store, table = LocalStore(StoreSpec("file")), TablePlaces(str(tmp_path))
    with pytest.raises(TableLogGoneError, match="_ray_committer/files: is gone"):
        save_file_set(store, table, many(2_000), **JOB)


def test_an_overwrite_of_many_files_is_read_back(kind):
    memory = table_on(kind())
    old = save_file_set(memory, TABLE, many(2_000), **JOB)
    append_commit(memory, "many", old)
    removed = save_file_set(memory, TABLE, many(1_500), job_id="other", job_attempt=0)
    append_commit(memory, "other", [a_file(1)], removed)
    _, files = read_files(memory, TABLE, "id")
    assert sum(map(len, files.values())) == 501
    assert save(memory) is None
    assert read_files(memory, TABLE, "id")[1] == files


def test_a_file_list_that_is_missing_or_another_is_named(kind):
    memory = table_on(kind())
    found = save_file_set(memory, TABLE, many(2_000), **JOB)
    append_commit(memory, "many", found)
    path = TABLE.file_list(**JOB, name=found.lists[0].name)
    memory.write(path, memory.read(path)[:-1])
    with pytest.raises(TableLogError, match=f"^{path}: is not the file list"):
        read_files(memory, TABLE, "id")
    memory.delete_file(path)
    with pytest.raises(TableLogError, match=f"^{path}: is missing"):
        read_files(memory, TABLE, "id")
    assert read_state(memory, TABLE, "id").version == find_head(memory, TABLE)
