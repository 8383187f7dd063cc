"""Jobs that are made from the log of a table: each row exactly once, whatever happens in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from ray_committer.cancellation import CancelToken
from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    IncompleteJobError,
    JobNotFoundError,
    PathError,
    RayCommitterError,
    SettingsError,
    TableLogGoneError,
    TableVersionGoneError,
)
from ray_committer.job_files.find_job import list_job_directories
from ray_committer.job_files.gone_jobs import sweep_all_gone
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent, temporary_directory
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import WITH_RECORD, Phase
from ray_committer.protocol.table_entry import (
    Isolation,
    TableAbort,
    TableClaim,
    TableDefinition,
    WriteMode,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stages.compact_table import (
    Bin,
    Compaction,
    Rewritten,
    compact_table,
    plan_compaction,
)
from ray_committer.stages.context import JobContext
from ray_committer.stages.drop_partitions import drop_partitions, plan_drop
from ray_committer.stages.table_job import dead_table_jobs, write_task
from ray_committer.stages.task_files import TaskFiles
from ray_committer.stages.undo_version import plan_undo, undo_version
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import init_table
from ray_committer.tables.snapshot import TableSnapshot
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    write_job,
)
from ray_committer.testing.harness import put_file, put_task_file
from ray_committer.work.worker import Worker
from tests.commits.test_table_commit import data_in, data_of_log, in_flight, kinds_of, stopped_at
from tests.stages import support
from tests.stages.support import (
    JOB,
    KINDS,
    ON_DIRECTORIES,
    ON_OBJECTS,
    OTHER_JOB,
    do_at,
    each_crash,
    state_of,
)
from tests.tables.support import TABLE, append_commit, table_on
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

AT_ONCE = CommitOptions(conflict_wait_seconds=0.0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS, conflict_wait_seconds=0.0)
FILES = {"day=1/a.parquet": b"a", "day=1/b.parquet": b"bb", "day=2/c.parquet": b"c"}
SMALL = 100
COMPACT = new_job_attempt("/table", "compact-1", 0)
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
    table: TablePlaces = TABLE,
) -> int | None:
    job = new_job_attempt(table.destination, job_id, 0)
    write_job(store, job, {0: files}, mode=options.mode)
    return run_commit(store, job, options).table_version


def small_files(kind: Callable[[], MemoryStore]) -> MemoryStore:
    store = kind()
    table_on(store)
    committed(store, "job_1", {name: FILES[name] for name in ("day=1/a.parquet", "day=2/c.parquet")})
    committed(store, "job_2", {"day=1/b.parquet": FILES["day=1/b.parquet"]})
    return store


def merge(worker: Worker, one: Bin) -> Rewritten:
    """Rewrite the bytes of a bin's files as one file."""
    data = b"".join(worker.store.read(file.path) for file in one.files)

    def write(files: TaskFiles, stem: str) -> None:
        put_task_file(files, "/".join(filter(None, (one.directory, f"{stem}.parquet"))), data)

    return Rewritten((write_task(worker, one.number, write),), one.files)


def plan(store: StoreOperations, *partitions: str, table: TablePlaces = TABLE) -> Compaction:
    return plan_compaction(store, table, "id", partitions, SMALL)


def compact(
    store: StoreOperations, job: JobAttempt = COMPACT, found: Compaction | None = None
) -> CommitResult | None:
    table = TablePlaces(job.destination)
    found = plan(store, table=table) if found is None else found
    return compact_table(context(store, job=job), found, merge) if found.bins else None


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
    assert store.get_status(COMPACT.temporary) is None


def finish(store: StoreOperations, again: Run, destination: str = "/table") -> None:
    """What a person does after a crash: finish the job if it is recorded, else run the command again,
    which first gives up the one that is not. The vacuum removes a job that is not set up or has ended.
    """
    for job in dead_table_jobs(store, destination):
        assert run_abort(store, job)
    is_recorded = False
    for job in [one for found in list_job_directories(store, destination) for one in found.attempts]:
        seen = read_state(store, job)
        if seen is not None and seen.phase in WITH_RECORD:
            run_commit(store, job, AT_ONCE)
            is_recorded = True
        else:
            run_abort(store, job)
    sweep_all_gone(store, new_job_attempt(destination, "any", 0))
    for found in list_job_directories(store, destination):
        store.remove_empty_directory(found.directory)
    store.remove_empty_directory(temporary_directory(destination))
    if not is_recorded:
        again(store)


# Compaction


def test_small_files_of_a_partition_become_one_file(kind):
    store = small_files(kind)
    result = compact(store)
    assert result is not None
    assert (result.table_version, result.files, result.replaced) == (6, 1, 2)
    claim = dict(read_entries(store, TABLE))[5]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.base, claim.partitions) == (WriteMode.REWRITE, 4, ["day=1"])
    assert kinds_of(store)[4:] == ["claim", "commit", "done"]
    assert {parent(path) for path in data_in(store)} == {"day=1", "day=2"}
    assert len(data_in(store)) == 2
    check(store, b"abbc")
    assert plan(store).bins == ()


def test_the_base_of_the_claim_is_the_version_that_was_read(kind):
    store = small_files(kind)
    found = plan(store)
    committed(store, "job_3", {"day=1/z.parquet": b"z"})
    compact(store, found=found)
    claim = dict(read_entries(store, TABLE))[7]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.base) == (WriteMode.REWRITE, 4)
    check(store, b"abbcz")


def test_success_of_the_last_job_stays(kind):
    store = small_files(kind)
    before = store.read("/table/_SUCCESS")
    compact(store)
    assert store.read("/table/_SUCCESS") == before


def test_files_are_packed_up_to_the_target_in_the_order_of_their_paths(kind):
    store = table_on(kind())
    sizes = {"a": 30, "b": 60, "c": 30, "d": 100, "e": 50, "f": 20, "g": 31}
    committed(store, "job_1", {f"day=1/{name}.parquet": b"x" * size for name, size in sizes.items()})
    bins = [[Path(file.path).stem for file in one.files] for one in plan(store).bins]
    assert bins == [["a", "b"], ["c", "e", "f"]]


def test_only_the_named_partitions_are_rewritten(kind):
    store = small_files(kind)
    committed(store, "job_3", {"day=2/d.parquet": b"d"})
    assert [one.directory for one in plan(store, "day=2").bins] == ["day=2"]
    assert [one.directory for one in plan(store).bins] == ["day=1", "day=2"]
    with pytest.raises(PathError, match="has no files in day=3 at version 6"):
        plan(store, "day=3")


def test_a_table_with_other_files_is_refused(kind):
    store = small_files(kind)
    committed(store, "job_3", {"day=2/d.csv": b"d"})
    with pytest.raises(SettingsError, match=r"day=2/d\.csv is not Parquet"):
        plan(store)
    assert [one.directory for one in plan(store, "day=1").bins] == ["day=1"]


def test_a_partition_in_which_a_job_replaces_data_is_left(kind):
    store = small_files(kind)
    write_job(store, JOB, {0: {"day=1/z.parquet": b"z"}}, mode=OVERWRITE.mode)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    assert (plan(store).bins, plan(store).at_work) == ((), ("day=1",))


def test_a_file_that_is_not_as_the_log_names_it_is_refused(kind):
    store = small_files(kind)
    store.write("/table/day=1/a.parquet", b"other")
    with pytest.raises(CommitConflictError, match=r"day=1/a\.parquet: is not there as the log"):
        plan(store)


@pytest.mark.parametrize("when", ["before it", "meanwhile"])
def test_a_file_that_another_program_changes_is_kept(kind, when: str):
    store = small_files(kind)
    found = plan(store)

    def change() -> None:
        store.delete_file("/table/day=1/a.parquet")
        store.write("/table/day=1/a.parquet", b"q")

    if when == "before it":
        change()
    wrapped = WrappedStore(store, after=do_at("rename", change, end="005.entry"))
    with pytest.raises(CommitConflictError, match=r"a\.parquet: has changed since job compact-1"):
        compact(wrapped, found=found)
    assert kinds_of(store)[4:] == ["claim", "abort"]
    assert rows(store, data_in(store)) == b"bbcq"
    assert store.get_status(COMPACT.temporary) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_after_a_crash_at_any_request_each_row_is_there_once(kind):
    for store in each_crash(partial(small_files, kind), compact):
        assert rows_in_log(store) == b"abbc"
        finish(store, partial(compact, job=new_job_attempt("/table", f"compact-{next(_ids)}", 0)))
        check(store, b"abbc")
        assert len(data_in(store)) == 2


def each_call(kind: Callable[[], MemoryStore], other: Run, run: Run = compact) -> Iterator[MemoryStore]:
    """Stores on which something else happened before one request of `run`, one store per request."""
    calls, advice = list[StoreCall](), list[str]()
    run(WrappedStore(small_files(kind), before=calls.append))
    for call in moments(calls):
        store = small_files(kind)

        def hook(now: StoreCall, store: MemoryStore = store, number: int = call.number) -> None:
            if now.number == number:
                other(store)

        try:
            run(WrappedStore(store, before=hook))
        except CommitConflictError as e:
            advice.append(e.advice)
        assert all("nothing was changed" in text for text in advice)
        yield store


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_an_append_at_any_request_is_neither_lost_nor_doubled(kind):
    def append(store: MemoryStore) -> None:
        committed(store, "job_9", {"day=1/z.parquet": b"z"})

    for store in each_call(kind, append):
        check(store, b"abbcz")
        assert "abort" not in kinds_of(store)


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_beside_an_overwrite_at_any_request_one_of_the_two_waits_or_is_refused(kind):
    refused: list[RayCommitterError] = []
    late: list[MemoryStore] = []

    def overwrite(store: MemoryStore) -> None:
        try:
            committed(store, "job_9", {"day=1/z.parquet": b"z"}, OVERWRITE)
        except CommitConflictError as e:
            refused.append(e)
            late.append(store)

    given_up = 0
    for store in each_call(kind, overwrite):
        if store in late:
            run_commit(store, new_job_attempt("/table", "job_9", 0), OVERWRITE)
        given_up += "rewrite" not in modes_of(store)
        check(store, b"cz")
    assert refused
    assert given_up > 10


def modes_of(store: StoreOperations) -> list[str]:
    """The modes of all jobs that were committed."""
    claims = {version: one for version, one in read_entries(store, TABLE) if isinstance(one, TableClaim)}
    return [
        claims[entry.claim].mode
        for _, entry in read_entries(store, TABLE)
        if not isinstance(entry, TableClaim) and type(entry).__name__ == "TableCommit"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_a_reader_of_the_log_sees_the_same_rows_at_any_request(kind):
    store = small_files(kind)
    seen: list[bytes] = []
    compact(WrappedStore(store, before=lambda _: seen.append(rows_in_log(store))))
    assert set(seen) == {b"abbc"}


def test_without_isolation_a_compaction_does_not_bring_replaced_rows_back(kind):
    store = kind()
    init_table(
        store,
        TABLE,
        TableDefinition(table_id="id", isolation=Isolation.NONE, created_milliseconds=1),
    )
    committed(store, "job_1", {"day=1/a.parquet": b"a", "day=1/b.parquet": b"b"})

    def late(worker: Worker, one: Bin) -> Rewritten:
        done = merge(worker, one)
        committed(store, "job_2", {"day=1/z.parquet": b"z"}, OVERWRITE)
        return done

    with pytest.raises(CommitConflictError, match=r"job job_2 \(version 3\) has written to day=1"):
        compact_table(context(store, job=COMPACT), plan(store), late)
    check(store, b"z")


def test_a_file_that_is_gone_before_it_is_read_is_a_conflict(kind):
    store = small_files(kind)
    found = plan(store)
    committed(store, "job_3", {"day=1/z.parquet": b"z"}, OVERWRITE)
    with pytest.raises(CommitConflictError, match=r"/day=1/a\.parquet: is gone since the job has read"):
        compact(store, found=found)
    check(store, b"cz")


def test_a_failure_while_files_are_rewritten_leaves_nothing(kind):
    store = small_files(kind)

    def fail(worker: Worker, one: Bin) -> Rewritten:
        merge(worker, one)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact_table(context(store, job=COMPACT), plan(store), fail)
    check(store, b"abbc")
    assert [type(entry) for _, entry in read_entries(store, TABLE)[4:]] == [TableAbort]


def test_a_cancelled_compaction_leaves_nothing(kind):
    store = small_files(kind)
    with pytest.raises(CommitCancelledError, match="this job was given up: run the same command again"):
        compact_table(context(store, job=COMPACT, cancelled=True), plan(store), merge)
    check(store, b"abbc")
    assert [type(entry) for _, entry in read_entries(store, TABLE)[4:]] == [TableAbort]


def test_a_compaction_that_is_cancelled_after_its_record_is_finished_as_any_other_job(kind):
    store, token = small_files(kind), CancelToken()
    wrapped = WrappedStore(store, after=do_at("advance", token.cancel, end="recorded"))
    found = replace(context(wrapped, job=COMPACT), cancelled=token)
    command = "finish this job with: ray-committer commit memory://test/table --job-id compact-1"
    with pytest.raises(CommitCancelledError, match=command):
        compact_table(found, plan(store), merge)
    run_commit(store, COMPACT, AT_ONCE)
    check(store, b"abbc")


def test_if_no_file_can_be_rewritten_the_job_makes_no_claim(kind):
    store = small_files(kind)
    found = context(store, job=COMPACT)
    left = Rewritten(left={"/table/day=1/a.parquet": "of its schema"})
    assert compact_table(found, plan(store), lambda *_: left) is None
    assert found.journal.notices == [
        "memory://test/table/day=1/a.parquet: was left as it is, because of its schema"
    ]
    check(store, b"abbc")
    assert [type(entry) for _, entry in read_entries(store, TABLE)[4:]] == [TableAbort]


def open_compaction(store: StoreOperations) -> None:
    """A compaction whose process has died just before the job was recorded."""
    died = do_at("advance", partial(pytest.fail, "died"), end="declared")
    with pytest.raises(pytest.fail.Exception):
        compact(WrappedStore(store, before=died))


@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE, CommitOptions(mode=ConflictMode.OVERWRITE)])
def test_nobody_else_can_commit_a_compaction_that_is_not_recorded(kind, options: CommitOptions):
    store = small_files(kind)
    open_compaction(store)
    with pytest.raises(IncompleteJobError, match="was made from the log of its table"):
        run_commit(store, COMPACT, options)
    assert state_of(store, COMPACT).phase is Phase.OPEN
    assert dead_table_jobs(store, "/table") == [COMPACT]
    assert run_abort(store, COMPACT)
    check(store, b"abbc")


def test_only_jobs_of_this_kind_that_are_not_at_work_are_given_up(kind):
    store = small_files(kind)
    write_job(store, OTHER_JOB, {0: {"day=1/z.parquet": b"z"}})
    found: list[object] = []

    def look(worker: Worker, one: Bin) -> Rewritten:
        found.extend(dead_table_jobs(store, "/table"))
        return merge(worker, one)

    compact_table(context(store, job=COMPACT), plan(store), look)
    assert found == []
    assert dead_table_jobs(store, "/table") == []


def test_a_table_that_was_made_anew_meanwhile_is_not_changed(kind):
    store = small_files(kind)
    found = plan(store)
    store.delete_directory(TABLE.directory)
    init_table(store, TABLE, TableDefinition(table_id="other", created_milliseconds=1))
    with pytest.raises(TableLogGoneError, match="is not the table id any more"):
        compact(store, found=found)
    assert rows(store, data_in(store)) == b"abbc"
    assert store.get_status(COMPACT.temporary) is None


@pytest.mark.slow
def test_on_local_files_a_compaction_at_any_crash_ends_well(tmp_path: Path):
    calls: list[StoreCall] = []
    for number in count(0):
        table = TablePlaces(str(tmp_path / f"table{number}"))
        store = LocalStore(StoreSpec("file"))
        table_on(store, table)
        files = {name: data for name, data in FILES.items() if name.startswith("day=1")}
        committed(store, "job_1", files, table=table)
        job = new_job_attempt(table.destination, "compact-1", 0)
        if not number:
            compact(WrappedStore(store, before=calls.append), job)
            continue
        if number > len(calls):
            break

        def stop(call: StoreCall, number: int = number) -> None:
            if call.number == number:
                pytest.fail("died")

        with pytest.raises(pytest.fail.Exception):
            compact(WrappedStore(store, after=stop), job)
        again = partial(compact, job=new_job_attempt(table.destination, "compact-2", 0))
        finish(store, again, table.destination)
        assert data_of_log(store, table) == data_in(store, table)
        assert list(data_in(store, table).values()) == [3]


# Dropped partitions


def drop(
    store: StoreOperations, *partitions: str, job: JobAttempt = JOB, table: TablePlaces = TABLE
) -> CommitResult | None:
    work = plan_drop(store, table, "id", partitions or ("day=1",))
    return drop_partitions(context(store, job=job), work)


def test_a_dropped_partition_is_gone_from_the_log_and_the_directory(kind):
    store = small_files(kind)
    put_file(store, "/table/day=1/of another program", b"x")
    result = drop(store)
    assert result is not None
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
        store.mkdirs(parent(TABLE.kept(5, file.p)))
        store.rename(join("/table", file.p), TABLE.kept(5, file.p))
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


def undo(store: StoreOperations, version: int = 6, job: JobAttempt = JOB) -> CommitResult | None:
    found = plan_undo(store, TABLE, "id", version)
    return undo_version(context(store, job=job), found, copy=copy)


def test_an_undone_overwrite_brings_back_what_it_has_removed(kind):
    store = kept_overwrite(kind)
    result = undo(store)
    assert result is not None
    assert (result.table_version, result.files) == (9, 2)
    claim = dict(read_entries(store, TABLE))[8]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.partitions) == (WriteMode.REPLACE, ["day=1"])
    assert data_in(store) == {name: len(data) for name, data in FILES.items()}
    check(store, b"abbc")
    assert store.read(TABLE.kept(5, "day=1/a.parquet")) == b"a"


def test_an_undone_append_is_gone(kind):
    store = small_files(kind)
    undo(store, 4)
    check(store, b"ac")


def test_an_undo_is_undone_as_any_other_job(kind):
    store = small_files(kind)
    undo(store, 4)
    with pytest.raises(TableVersionGoneError, match=r"version 6 \(job job_1\) has deleted day=1/b"):
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
        undo_version(context(store, job=COMPACT), found, copy=copy)
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
        undo(store, 6, COMPACT)
    assert read_state(store, COMPACT) is None


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


def test_an_aborted_job_of_this_kind_is_given_up_once_more(kind):
    store = small_files(kind)
    open_compaction(store)
    seen = read_state(store, COMPACT)
    assert seen is not None
    advance(store, COMPACT, seen, Phase.ABORTED)
    assert dead_table_jobs(store, "/table") == []
