"""Jobs that are made from the log of a table: each row exactly once, whatever happens in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    IncompleteJobError,
    JobNotFoundError,
    PathError,
    TableLogGoneError,
    TableVersionGoneError,
)
from ray_committer.events import CancelToken
from ray_committer.job_files.job_state import adopt_state, advance, read_state
from ray_committer.job_files.listing import jobs_at
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent, temporary_directory
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import WITH_RECORD, Phase
from ray_committer.protocol.table_entry import (
    Isolation,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    WriteMode,
)
from ray_committer.stages.context import JobContext
from ray_committer.stages.take_away import sweep_all_gone
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.drop_partitions import drop_partitions, plan_drop
from ray_committer.table_jobs.table_job import dead_table_jobs
from ray_committer.table_jobs.undo_version import plan_undo, undo_version
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import init_table
from ray_committer.tables.snapshot import TableSnapshot
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.commits.tables import AT_ONCE, sizes
from tests.commits.test_table_commit import data_in, data_of_log, in_flight, kinds_of, stopped_at
from tests.stages import support
from tests.stages.support import (
    JOB,
    KINDS,
    ON_DIRECTORIES,
    ON_OBJECTS,
    OTHER_JOB,
    at,
    do_at,
    each_crash,
    state_of,
)
from tests.tables.support import TABLE, append_commit, table_on
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS, conflict_wait_seconds=0.0)
FILES = {"day=1/a.parquet": b"a", "day=1/b.parquet": b"bb", "day=2/c.parquet": b"c"}
UNDO = new_job_attempt("/table", "undo-1", 0)
_ids = count(2)

Run = Callable[[StoreOperations], object]


@pytest.fixture(params=["directories", "generations"])
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS[request.param]


def now() -> int:
    return time.time_ns() // 1_000_000


def context(store: StoreOperations, job: JobAttempt, *, cancelled: bool = False) -> JobContext:
    """What a job is given; by the real time, since other jobs see whether it is at work."""
    found = support.context(store, AT_ONCE, job=job, cancelled=cancelled)
    return replace(found, now_milliseconds=now)


def committed(
    store: StoreOperations,
    job_id: str,
    files: Mapping[str, bytes],
    options: CommitOptions = AT_ONCE,
) -> int | None:
    job = new_job_attempt("/table", job_id, 0)
    write_job(store, job, {0: files}, mode=options.mode)
    return run_commit(store, job, options).table_version


def small_files(kind: Callable[[], MemoryStore]) -> MemoryStore:
    store = kind()
    table_on(store)
    committed(store, "job_1", {name: FILES[name] for name in ("day=1/a.parquet", "day=2/c.parquet")})
    committed(store, "job_2", {"day=1/b.parquet": FILES["day=1/b.parquet"]})
    return store


def rows(store: StoreOperations, files: Mapping[str, int]) -> bytes:
    """The bytes of some files, each of which is a row."""
    return bytes(sorted(b"".join(store.read(join("/table", name)) for name in files)))


def rows_in_log(store: StoreOperations) -> bytes:
    snapshot = TableSnapshot(store, TABLE, "id")
    places = snapshot.places(snapshot.files())
    return bytes(sorted(b"".join(map(store.read, places))))


def check(store: StoreOperations, expected: bytes) -> None:
    """Readers of the log and of the directory see exactly these rows, and no job is left."""
    assert data_of_log(store) == data_in(store)
    assert rows(store, data_in(store)) == rows_in_log(store) == expected
    assert in_flight(store) == []
    assert store.get_status(UNDO.temporary) is None


def finish(store: StoreOperations, again: Run, destination: str = "/table") -> None:
    """What a person does after a crash: finish the job if it is recorded, else run the command again,
    which first gives up the one that is not. The vacuum removes a job that is not set up or has ended.
    """
    for job in dead_table_jobs(store, destination):
        assert run_abort(store, job)
    is_recorded = False
    for job in [one.job for one in jobs_at(store, destination) if one.is_attempt]:
        seen = read_state(store, job)
        if seen is not None and seen.phase in WITH_RECORD:
            run_commit(store, job, AT_ONCE)
            is_recorded = True
        else:
            run_abort(store, job)
    sweep_all_gone(store, new_job_attempt(destination, "any", 0))
    for found in jobs_at(store, destination):
        store.remove_empty_directory(found.directory)
    store.remove_empty_directory(temporary_directory(destination))
    if not is_recorded:
        again(store)


# Dropped partitions


def drop(store: StoreOperations, *partitions: str, job: JobAttempt = JOB) -> CommitResult:
    work = plan_drop(store, TABLE, "id", partitions or ("day=1",))
    return drop_partitions(context(store, job=job), work)


def test_a_dropped_partition_is_gone_from_the_log_and_the_directory(kind):
    store = small_files(kind)
    put_file(store, "/table/day=1/of another program", b"x")
    result = drop(store)
    assert (result.table_version, result.replaced) == (6, 3)
    claim = dict(read_entries(store, TABLE))[5]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.partitions) == (WriteMode.OVERWRITE, ["day=1"])
    if store.capabilities.has_directories:
        assert store.get_status("/table/day=1") is None
    check(store, b"c")


def test_a_partition_that_is_not_there_is_named(kind):
    store = small_files(kind)
    for wrong in ("day=3", "day=1/a.parquet"):
        with pytest.raises(PathError, match=f"/table/{wrong}: is not a partition with files"):
            drop(store, "day=2", wrong)
    assert len(read_entries(store, TABLE)) == 4


def test_a_partition_with_files_that_are_missing_is_not_dropped(kind):
    store = small_files(kind)
    store.delete_file("/table/day=1/a.parquet")
    with pytest.raises(CommitConflictError, match=r"day=1/a\.parquet is named by the log .* not there"):
        drop(store)
    assert len(read_entries(store, TABLE)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_after_a_crash_of_a_drop_at_any_request_it_can_be_done(kind):
    def again(store: StoreOperations) -> None:
        drop(store, job=new_job_attempt("/table", f"drop-{next(_ids)}", 0))

    for store in each_crash(partial(small_files, kind), drop):
        assert rows_in_log(store) == (b"abbc" if "day=1/a.parquet" in data_of_log(store) else b"c")
        finish(store, again if "day=1/a.parquet" in data_of_log(store) else lambda _: None)
        check(store, b"c")


# Undo


def kept_overwrite(kind: Callable[[], MemoryStore]) -> MemoryStore:
    """A table whose last job has replaced a partition and kept the old files, one of them under the name
    of a new file."""
    store = small_files(kind)
    status = {one.path: one for one in store.list_status("/table/day=1")}
    old = [
        ListedFile(f"day=1/{name}", one.size, one.modified_milliseconds, one.etag)
        for name in ("a.parquet", "b.parquet")
        if (one := status[f"/table/day=1/{name}"])
    ]
    for file in old:
        store.mkdirs(parent(TABLE.kept(5, file.path)))
        store.rename(join("/table", file.path), TABLE.kept(5, file.path))
    new = []
    for name, data in {"day=1/b.parquet": b"zzz", "day=1/y.parquet": b"y"}.items():
        store.write(join("/table", name), data)
        one = store.get_status(join("/table", name))
        assert one is not None
        new.append(ListedFile(name, one.size, one.modified_milliseconds, one.etag))
    assert append_commit(store, "job_3", new, old, mode=WriteMode.OVERWRITE, kept=True) == 7
    assert rows_in_log(store) == b"cyzzz"
    return store


def copy(store: StoreOperations, source: str, dest: str) -> int:
    store.write(dest, store.read(source))
    return len(store.read(source))


def undo(store: StoreOperations, version: int = 6, job: JobAttempt = UNDO) -> CommitResult:
    found = plan_undo(store, TABLE, "id", version)
    return undo_version(context(store, job=job), found, copy=copy)


def test_an_undone_overwrite_brings_back_what_it_has_removed(kind):
    store = kept_overwrite(kind)
    result = undo(store)
    assert (result.table_version, result.files) == (9, 2)
    claim = dict(read_entries(store, TABLE))[8]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.partitions) == (WriteMode.REPLACE, ["day=1"])
    assert data_in(store) == sizes(FILES)
    check(store, b"abbc")
    assert store.read(TABLE.kept(5, "day=1/a.parquet")) == b"a"


def test_an_undone_append_is_gone(kind):
    store = small_files(kind)
    undo(store, 4)
    check(store, b"ac")


def test_an_undo_is_undone_as_any_other_job(kind):
    store = small_files(kind)
    undo(store, 4)
    with pytest.raises(TableVersionGoneError, match=r"version 6 \(job undo-1\) has deleted day=1/b"):
        undo(store, 6, new_job_attempt("/table", "undo-2", 0))


def test_a_version_is_not_undone_if_a_later_job_has_changed_its_partitions(kind):
    store = kept_overwrite(kind)
    committed(store, "job_4", {"day=1/w.parquet": b"w"})
    before = rows_in_log(store)
    with pytest.raises(CommitConflictError, match=r"job job_4 \(version 9\) has changed day=1"):
        undo(store)
    assert len(read_entries(store, TABLE)) == 9
    check(store, before)


def test_a_job_in_other_partitions_does_not_hinder_an_undo(kind):
    store = kept_overwrite(kind)
    committed(store, "job_4", {"day=2/w.parquet": b"w"})
    undo(store)
    check(store, b"abbcw")


@pytest.mark.parametrize("isolation", list(Isolation))
def test_an_undo_is_refused_if_a_job_replaces_the_files_before_its_claim(kind, isolation: Isolation):
    store = kind()
    definition = TableDefinition(table_id="id", isolation=isolation, created_milliseconds=1)
    init_table(store, TABLE, definition)
    committed(store, "job_1", {"day=1/a.parquet": b"a"})
    found = plan_undo(store, TABLE, "id", 2)
    committed(store, "job_2", {"day=1/z.parquet": b"z"}, OVERWRITE)
    with pytest.raises(CommitConflictError):
        undo_version(context(store, job=UNDO), found, copy=copy)
    check(store, b"z")


def test_a_version_whose_old_files_are_gone_is_not_undone(kind):
    store = kept_overwrite(kind)
    store.delete_file(TABLE.kept(5, "day=1/a.parquet"))
    with pytest.raises(TableVersionGoneError, match=r"a\.parquet\.kept: is gone or has changed"):
        undo(store)
    assert len(read_entries(store, TABLE)) == 7


@pytest.mark.parametrize("version", [0, 1, 5, 7, 8])
def test_only_a_commit_can_be_undone(kind, version: int):
    store = kept_overwrite(kind)
    with pytest.raises((JobNotFoundError, TableVersionGoneError)):
        undo(store, version)


def test_a_job_that_still_removes_old_files_is_not_undone(kind):
    store = small_files(kind)
    write_job(store, JOB, {0: {"day=1/z.parquet": b"z"}}, mode=OVERWRITE.mode)
    stopped_at(store, "committed", JOB, OVERWRITE)
    entries = read_entries(store, TABLE)
    store.delete_file(TABLE.entry(entries[-1][0]))
    with pytest.raises((CommitConflictError, TableVersionGoneError)):
        undo(store, 6)
    assert read_state(store, UNDO) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_after_a_crash_of_an_undo_at_any_request_it_can_be_done(kind):
    def again(store: StoreOperations) -> None:
        undo(store, job=new_job_attempt("/table", f"undo-{next(_ids)}", 0))

    for store in each_crash(partial(kept_overwrite, kind), undo):
        is_undone = "day=1/a.parquet" in data_of_log(store)
        finish(store, again if not is_undone else lambda _: None)
        check(store, b"abbc")


def test_the_import_of_a_table_is_not_undone(kind):
    store = kind()
    table_on(store)
    append_commit(store, "import-id", mode=WriteMode.CREATE, partitions=[""], is_import=True)
    with pytest.raises(PathError, match="is the import of files"):
        undo(store, 2)


# Every job of this kind, by the example of an undo


def undo_append(store: StoreOperations, job: JobAttempt = UNDO) -> CommitResult:
    """Take back the second job of `small_files`."""
    return undo(store, 4, job)


def test_the_base_of_the_claim_is_the_version_that_was_read(kind):
    store = small_files(kind)
    found = plan_undo(store, TABLE, "id", 4)
    committed(store, "job_3", {"day=2/z.parquet": b"z"})
    undo_version(context(store, job=UNDO), found, copy=copy)
    claim = dict(read_entries(store, TABLE))[7]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.base) == (WriteMode.REPLACE, 4)
    assert kinds_of(store)[6:] == ["claim", "commit", "done"]
    check(store, b"acz")


def test_success_of_the_last_job_stays(kind):
    store = small_files(kind)
    before = store.read("/table/_SUCCESS")
    undo_append(store)
    assert store.read("/table/_SUCCESS") == before


def test_a_file_that_is_not_as_the_log_names_it_is_refused(kind):
    store = small_files(kind)
    store.write("/table/day=1/b.parquet", b"other")
    with pytest.raises(CommitConflictError, match=r"day=1/b\.parquet: is not there as the log"):
        plan_undo(store, TABLE, "id", 4)


@pytest.mark.parametrize("when", ["before it", "meanwhile"])
def test_a_file_that_another_program_changes_is_kept(kind, when: str):
    store = small_files(kind)
    found = plan_undo(store, TABLE, "id", 4)

    def change() -> None:
        store.delete_file("/table/day=1/b.parquet")
        store.write("/table/day=1/b.parquet", b"q")

    if when == "before it":
        change()
    wrapped = WrappedStore(store, after=do_at("rename", change, end="005.entry"))
    with pytest.raises(CommitConflictError, match=r"b\.parquet: has changed since job undo-1"):
        undo_version(context(wrapped, job=UNDO), found, copy=copy)
    assert kinds_of(store)[4:] == ["claim", "abort"]
    assert rows(store, data_in(store)) == b"acq"
    assert store.get_status(UNDO.temporary) is None


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE], ids=["an append", "an overwrite"])
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_beside_another_job_at_any_request_one_of_the_two_waits_or_is_refused(
    kind, options: CommitOptions
):
    calls = list[StoreCall]()
    undo_append(WrappedStore(small_files(kind), before=calls.append))
    undone, late, advice = 0, 0, list[str]()
    for call in moments(calls):
        store, is_late = small_files(kind), False

        def hook(now: StoreCall, store: MemoryStore = store, number: int = call.number) -> None:
            nonlocal is_late
            if now.number == number:
                try:
                    committed(store, "job_9", {"day=1/z.parquet": b"z"}, options)
                except CommitConflictError:
                    is_late = True

        try:
            undo_append(WrappedStore(store, before=hook))
        except CommitConflictError as e:
            advice.append(e.advice)
        if is_late:
            run_commit(store, new_job_attempt("/table", "job_9", 0), options)
        late += is_late
        is_undone = "undo-1" in [
            one.job_id for _, one in read_entries(store, TABLE) if isinstance(one, TableCommit)
        ]
        undone += is_undone
        there = b"" if options is OVERWRITE else b"a" if is_undone else b"abb"
        check(store, bytes(sorted(there + b"cz")))
    assert all("nothing was changed" in text for text in advice)
    assert min(undone, late, len(advice)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_a_reader_of_the_log_sees_all_of_the_job_or_nothing_at_any_request(kind):
    store = small_files(kind)
    seen: list[bytes] = []
    undo_append(WrappedStore(store, before=lambda _: seen.append(rows_in_log(store))))
    assert set(seen) == {b"abbc", b"ac"}


def test_a_failure_of_a_task_leaves_nothing(kind):
    store = kept_overwrite(kind)

    def fail(store: StoreOperations, source: str, dest: str) -> int:
        copy(store, source, dest)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        undo_version(context(store, job=UNDO), plan_undo(store, TABLE, "id", 6), copy=fail)
    check(store, b"cyzzz")
    assert [type(entry) for _, entry in read_entries(store, TABLE)[7:]] == [TableAbort]


def test_a_cancelled_job_leaves_nothing(kind):
    store = small_files(kind)
    found = plan_undo(store, TABLE, "id", 4)
    with pytest.raises(CommitCancelledError, match="this job was given up: run the same command again"):
        undo_version(context(store, job=UNDO, cancelled=True), found, copy=copy)
    check(store, b"abbc")
    assert [type(entry) for _, entry in read_entries(store, TABLE)[4:]] == [TableAbort]


def test_a_job_that_is_cancelled_after_its_record_is_finished_as_any_other(kind):
    store, token = small_files(kind), CancelToken()
    wrapped = WrappedStore(store, after=do_at("advance", token.cancel, end="recorded"))
    found = replace(context(wrapped, job=UNDO), cancelled=token)
    command = "finish this job with: ray-committer commit memory://test/table --job-id undo-1"
    with pytest.raises(CommitCancelledError, match=command):
        undo_version(found, plan_undo(store, TABLE, "id", 4), copy=copy)
    run_commit(store, UNDO, AT_ONCE)
    check(store, b"ac")


def open_undo(store: StoreOperations) -> None:
    """An undo whose process has died just before the job was recorded."""
    with pytest.raises(SimulatedCrash):
        undo_append(WrappedStore(store, before=at("advance", SimulatedCrash(), "declared")))


@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE, CommitOptions(mode=ConflictMode.OVERWRITE)])
def test_nobody_else_can_commit_a_job_that_is_not_recorded(kind, options: CommitOptions):
    store = small_files(kind)
    open_undo(store)
    with pytest.raises(IncompleteJobError, match="was made from the log of its table"):
        run_commit(store, UNDO, options)
    assert state_of(store, UNDO).phase is Phase.OPEN
    assert dead_table_jobs(store, "/table") == [UNDO]
    assert run_abort(store, UNDO)
    check(store, b"abbc")


def test_only_jobs_of_this_kind_that_are_not_at_work_are_given_up(kind):
    store = kept_overwrite(kind)
    write_job(store, OTHER_JOB, {0: {"day=2/z.parquet": b"z"}})
    found: list[object] = []

    def look(store: StoreOperations, source: str, dest: str) -> int:
        found.extend(dead_table_jobs(store, "/table"))
        return copy(store, source, dest)

    undo_version(context(store, job=UNDO), plan_undo(store, TABLE, "id", 6), copy=look)
    assert found == []
    assert dead_table_jobs(store, "/table") == []


def test_an_aborted_job_of_this_kind_is_given_up_once_more(kind):
    store = small_files(kind)
    open_undo(store)
    advance(store, UNDO, adopt_state(store, UNDO), Phase.ABORTED)
    assert dead_table_jobs(store, "/table") == []


def test_a_table_that_was_made_anew_meanwhile_is_not_changed(kind):
    store = small_files(kind)
    found = plan_undo(store, TABLE, "id", 4)
    store.delete_directory(TABLE.directory)
    init_table(store, TABLE, TableDefinition(table_id="other", created_milliseconds=1))
    with pytest.raises(TableLogGoneError, match="is not the table id any more"):
        undo_version(context(store, job=UNDO), found, copy=copy)
    assert rows(store, data_in(store)) == b"abbc"
    assert store.get_status(UNDO.temporary) is None
