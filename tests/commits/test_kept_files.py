"""Old files that a job of a table keeps: each is in the place that the log implies, whatever happens."""

from __future__ import annotations

import errno
import os
from collections import Counter
from functools import partial

import pytest
from msgspec import structs

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    PreflightError,
    SettingsError,
)
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import init_table
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing.harness import all_files, run_undo, write_job
from tests.commits.tables import (
    NEW,
    OLD,
    THIRD,
    begun,
    committed,
    data_in,
    data_of_log,
    in_flight,
    kinds_of,
    of_mode,
    sizes,
    stopped_at,
    with_old_data,
    write,
)
from tests.stages.support import (
    JOB,
    ON_DIRECTORIES,
    ON_OBJECTS,
    OTHER_JOB,
    context,
    do_at,
    each_crash,
    requests,
    state_of,
)
from tests.tables.support import DEFINITION, TABLE, table_on

pytestmark = pytest.mark.usefixtures("no_pauses")

KEEPS = of_mode(ConflictMode.OVERWRITE, keep_replaced=True)
DELETES = of_mode(ConflictMode.OVERWRITE, keep_replaced=False)


def kept(store: StoreOperations, claim: int = 3, table: TablePlaces = TABLE) -> dict[str, bytes]:
    """The files that the job of a claim has kept, by their paths in the table."""
    prefix = table.kept(claim, "")[: -len(".kept")]
    found = all_files(store, table.kept_directory(claim))
    return {path[len(prefix) : -len(".kept")]: data for path, data in found.items()}


def test_old_files_are_moved_and_the_commit_entry_says_so(kind):
    store = with_old_data(kind())
    write(store, NEW, mode=ConflictMode.OVERWRITE)
    report = run_commit(store, JOB, KEEPS)
    assert (report.table_version, report.replaced) == (4, 2)
    assert kinds_of(store)[2:] == ["claim", "commit", "done"]
    assert kept(store) == OLD
    assert data_of_log(store) == data_in(store) == sizes(NEW)
    entry = dict(read_entries(store, TABLE))[4]
    assert isinstance(entry, TableCommit)
    assert entry.kept
    for file in entry.removed.inline:
        assert store.read(TABLE.kept(3, file.path)) == OLD[file.path]


def test_without_the_option_the_table_decides(kind):
    store = kind()
    init_table(store, TABLE, structs.replace(DEFINITION, keep_replaced=True))
    committed(store, OLD, OTHER_JOB)
    assert committed(store, NEW, options=of_mode(ConflictMode.OVERWRITE)) == 4
    assert kept(store) == OLD
    assert committed(store, OLD, THIRD, DELETES) == 7
    assert kept(store, 6) == {}
    entries = [one for _, one in read_entries(store, TABLE) if isinstance(one, TableCommit)]
    assert [one.kept for one in entries] == [False, True, False]


def test_an_append_keeps_nothing(kind):
    store = with_old_data(kind())
    assert committed(
        store, {"day=1/new": b"3"}, options=of_mode(ConflictMode.APPEND, keep_replaced=True)
    )
    entry = dict(read_entries(store, TABLE))[4]
    assert isinstance(entry, TableCommit)
    assert not entry.kept
    assert kept(store) == {}


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
def test_a_destination_without_a_log_is_refused_before_anything_is_changed(kind, mode: ConflictMode):
    committed(store := kind(), OLD, OTHER_JOB)
    write(store, NEW, mode=mode)
    before = store.files()
    with pytest.raises(SettingsError, match="/table: is not a table with a log") as caught:
        run_commit(store, JOB, of_mode(mode, keep_replaced=True))
    assert caught.value.exit_code == 2
    assert "ray-committer table init DEST" in caught.value.advice
    assert store.files() == before
    with pytest.raises(SettingsError, match="/table: is not a table with a log"):
        setup_job(store, THIRD, needs_table=True)
    assert read_state(store, THIRD) is None


def test_the_record_decides_for_another_run(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "sealed", JOB, KEEPS)
    run_commit(store, JOB, DELETES)
    assert kept(store) == OLD


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_files_take_as_many_requests_as_their_removal(kind):
    def overwrite(options: CommitOptions) -> Counter[str]:
        store = table_on(kind())
        old = {f"day={number % 2}/{number}": b"1" for number in range(40)}
        write_job(store, OTHER_JOB, {0: old})
        run_commit(store, OTHER_JOB)
        write(store, {"day=1/new": b"3"}, mode=ConflictMode.OVERWRITE)
        return requests(store, lambda one: run_commit(one, JOB, options))

    more = overwrite(KEEPS).total() - overwrite(DELETES).total()
    assert more <= 3  # one directory per partition, and another one above them


# Crashes, and others


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_after_a_crash_at_any_request_the_same_command_keeps_each_old_file(kind):
    new = partial(begun, kind, NEW, ConflictMode.OVERWRITE)
    for store in each_crash(new, lambda one: run_commit(one, JOB, KEEPS)):
        if "commit" not in kinds_of(store)[2:]:
            assert OLD.keys() <= data_in(store).keys()
        run_commit(store, JOB, KEEPS)
        assert kinds_of(store)[2:] == ["claim", "commit", "done"]
        assert kept(store) == OLD
        assert data_of_log(store) == data_in(store) == sizes(NEW)
        assert in_flight(store) == []
        assert read_state(store, JOB) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_two_runs_at_any_request_of_each_other_keep_each_old_file(kind):
    calls: list[StoreCall] = []
    new = partial(begun, kind, NEW, ConflictMode.OVERWRITE)
    long_ago(WrappedStore(new(), before=calls.append))
    for call in calls:
        store = new()

        def other(now: StoreCall, store: MemoryStore = store, number: int = call.number) -> None:
            seen = read_state(store, JOB)
            if now.number == number and seen is not None and seen.phase is Phase.SEALED:
                run_commit(store, JOB, KEEPS)

        long_ago(WrappedStore(store, before=other))
        assert kept(store) == OLD
        assert data_of_log(store) == data_in(store) == sizes(NEW)


def test_a_committer_that_sleeps_before_it_moves_an_old_file_moves_none_of_a_later_job(kind):
    """It wakes up when its job has ended and a later job has written a file of that name."""
    store = begun(kind, {"day=1/new": b"3"}, ConflictMode.OVERWRITE)

    def others(call: StoreCall) -> None:
        is_move = call.operation in ("set_aside", "rename") and call.paths[0] == "/table/day=1/old"
        if is_move and not done:
            done.append(None)
            run_commit(store, JOB, KEEPS)
            committed(store, {"day=1/old": b"later"}, THIRD)

    done: list[None] = []
    assert long_ago(WrappedStore(store, before=others)).outcome is Outcome.ALREADY_COMMITTED
    assert done
    assert store.read("/table/day=1/old") == b"later"
    assert kept(store) == OLD
    assert data_of_log(store) == data_in(store)


def long_ago(store: StoreOperations) -> CommitResult:
    """Commit as a process whose last sign of life is so old that others think it dead."""
    return commit_job(context(store, KEEPS), read_job(store, JOB))


def test_a_file_that_has_changed_stays_and_is_named(kind):
    store = begun(kind, {"day=1/new": b"3"}, ConflictMode.OVERWRITE)
    change = do_at("advance", lambda: store.write("/table/day=1/old", b"changed"), end="sealed")
    report = run_commit(WrappedStore(store, after=change), JOB, KEEPS)
    assert "day=1/old: was to be replaced but has changed" in " ".join(report.notices)
    assert store.read("/table/day=1/old") == b"changed"
    assert kept(store) == {"day=2/old": b"22"}


def test_an_undo_leaves_the_old_files_where_they_are(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "sealed", JOB, KEEPS)
    assert run_undo(store, JOB)
    assert data_in(store) == sizes(OLD)
    assert kept(store) == {}


# What cannot be kept


def test_a_file_whose_name_would_be_too_long_is_refused_before_the_record(kind):
    name = "day=1/" + "x" * 252
    committed(store := table_on(kind()), {name: b"1"}, OTHER_JOB)
    write(store, NEW, mode=ConflictMode.OVERWRITE)
    with pytest.raises(PreflightError, match="has too long a name") as caught:
        run_commit(store, JOB, KEEPS)
    assert "--no-keep-replaced" in caught.value.advice
    assert state_of(store).phase is Phase.OPEN
    assert run_commit(store, JOB, DELETES).table_version == 4


def test_a_file_in_the_place_of_a_directory_is_refused_before_the_record():
    committed(store := table_on(MemoryStore()), {"day=1": b"1"}, OTHER_JOB)
    write(store, {"day=1/new": b"3"}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(CommitConflictError, match="/table/day=1: is a file where the job needs a dir"):
        run_commit(store, JOB, KEEPS)
    assert state_of(store).phase is Phase.OPEN


def test_a_new_file_never_takes_the_place_of_an_old_one_that_cannot_be_kept(kind):
    """The old file could be replaced where it is, but the job was told to keep it."""
    store = begun(kind, NEW, ConflictMode.OVERWRITE)

    def refuse(call: StoreCall) -> None:
        if call.operation in ("rename", "set_aside") and call.paths[0] == "/table/day=2/old":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), call.paths[0])

    with pytest.raises(CommitStateUnknownError, match="1 old files could not be removed") as caught:
        run_commit(WrappedStore(store, before=refuse), JOB, KEEPS)
    assert "/table/day=2/old: Operation not permitted" in caught.value.what
    assert data_in(store) == sizes({"day=1/new": b"3", "day=2/old": b"22"})
    assert run_commit(store, JOB, KEEPS).outcome is Outcome.COMMITTED
    assert kept(store) == OLD
    assert data_in(store) == sizes(NEW)
