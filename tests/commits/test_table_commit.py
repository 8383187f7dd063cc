"""A commit to a table with a log: the log, the directory and the states agree, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from msgspec import structs

import ray_committer.tables.checkpoint as checkpoint_module
from ray_committer import Outcome
from ray_committer.errors import (
    CommitAbortedError,
    CommitCancelledError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.job_files.job_state import adopt_state, advance, join_table, read_state
from ray_committer.job_files.success import read_success
from ray_committer.options import CommitOptions
from ray_committer.protocol import file_list
from ray_committer.protocol.file_list import ListedFile, inline_set
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import UNSTAMPED, Phase, TableBase
from ray_committer.protocol.table_entry import TableClaim, TableCommit, WriteMode
from ray_committer.protocol.table_paths import DIRECTORY
from ray_committer.stages.turns import claim_table
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.append import append
from ray_committer.tables.log import read_entries, read_entry
from ray_committer.tables.release import release_own
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    write_job,
)
from ray_committer.testing.harness import (
    chaos_executor,
    commit_attempt,
    put_file,
    run_undo,
    set_up_attempt,
    write_attempt,
)
from tests.commits.tables import (
    AT_ONCE,
    NEW,
    OLD,
    OVERWRITE,
    THIRD,
    Write,
    begun,
    committed,
    data_in,
    data_of_log,
    in_flight,
    job_of,
    kinds_of,
    of_mode,
    sizes,
    stopped_at,
    with_old_data,
    write,
)
from tests.stages.support import (
    JOB,
    KINDS,
    ON_DIRECTORIES,
    ON_OBJECTS,
    OTHER_JOB,
    at,
    do_at,
    each_crash,
    phase_of,
    requests,
    state_of,
)
from tests.tables.support import TABLE, abort_of, claim_of, commit_of, table_on

pytestmark = pytest.mark.usefixtures("no_pauses")


# What a commit leaves in the log


def test_an_append_is_a_claim_and_a_commit(kind):
    store = table_on(kind())
    assert committed(store, OLD) == 2
    assert kinds_of(store) == ["claim", "commit"]
    (_, claim), _ = read_entries(store, TABLE)
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.base, claim.partitions) == (WriteMode.APPEND, 0, ["day=1", "day=2"])
    assert claim.nonce
    assert data_of_log(store) == data_in(store) == sizes(OLD)
    assert in_flight(store) == []


def test_an_overwrite_ends_with_done_and_names_what_it_has_removed(kind):
    store = with_old_data(kind())
    assert committed(store, NEW, options=OVERWRITE) == 4
    assert kinds_of(store)[2:] == ["claim", "commit", "done"]
    entry = dict(read_entries(store, TABLE))[4]
    assert isinstance(entry, TableCommit)
    assert {file.path for file in entry.removed.inline} == set(OLD)
    success = read_success(store, "/table")
    assert success is not None
    assert (success.diagnostics or {})["table_version"] == "4"
    assert data_of_log(store) == data_in(store) == sizes(NEW)
    assert in_flight(store) == []


@pytest.mark.parametrize(
    ("options", "mode", "partitions", "replaces"),
    [
        (AT_ONCE, WriteMode.APPEND, ["day=3"], []),
        (of_mode(ConflictMode.APPEND, reads=("day=3",)), WriteMode.APPEND, ["day=3"], []),
        (of_mode(ConflictMode.OVERWRITE), WriteMode.OVERWRITE, [""], [""]),
        (of_mode(ConflictMode.OVERWRITE, reads=("day=9/",)), WriteMode.REPLACE, [""], [""]),
        (
            of_mode(ConflictMode.OVERWRITE, replaced_roots=("/table/day=1",)),
            WriteMode.OVERWRITE,
            ["day=1", "day=3"],
            ["day=1"],
        ),
        (of_mode(ConflictMode.OVERWRITE_PARTITIONS), WriteMode.OVERWRITE, ["day=3"], ["day=3"]),
        (of_mode(ConflictMode.ERROR_PARTITIONS), WriteMode.CREATE, ["day=3"], []),
        (of_mode(ConflictMode.ERROR), WriteMode.CREATE, [""], []),
    ],
)
def test_a_claim_names_what_the_job_writes_reads_and_replaces_and_no_more(
    kind, options: CommitOptions, mode: WriteMode, partitions: list[str], replaces: list[str]
):
    is_empty = options.mode is ConflictMode.ERROR
    store = table_on(kind()) if is_empty else with_old_data(kind())
    committed(store, {"day=3/new": b"3"}, options=options)
    claim = dict(read_entries(store, TABLE))[1 if is_empty else 3]
    assert isinstance(claim, TableClaim)
    assert (claim.mode, claim.partitions, claim.replaces) == (mode, partitions, replaces)
    assert claim.reads == [path.strip("/") for path in options.reads]
    assert not claim.is_import


def test_without_a_log_nothing_carries_a_version(kind):
    store = kind()
    assert committed(store, OLD) is None
    success = read_success(store, "/table")
    assert success is not None
    assert "table_version" not in (success.diagnostics or {})
    assert store.get_status(TABLE.directory) is None


def test_a_claim_that_would_have_to_name_too_many_directories_names_none(
    kind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(claim_table, "MOST_PARTITIONS", 1)
    store = with_old_data(kind())
    files = {"day=3/new": b"3", "day=4/new": b"4"}
    committed(store, files, options=of_mode(ConflictMode.OVERWRITE_PARTITIONS))
    claim = dict(read_entries(store, TABLE))[3]
    assert isinstance(claim, TableClaim)
    assert claim.replaces is None


def test_many_files_are_in_lists(kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_list, "MOST_INLINE", 2)
    store = with_old_data(kind())
    files = {f"day={number}/new": b"new" for number in range(5)}
    write_job(store, JOB, {0: files, 1: {"day=1/one": b"1"}}, mode=ConflictMode.OVERWRITE)
    run_commit(store, JOB, OVERWRITE)
    claim = dict(read_entries(store, TABLE))[3]
    assert isinstance(claim, TableClaim)
    assert claim.files.files == 6
    assert claim.files.lists
    assert data_of_log(store) == data_in(store)
    assert len(data_in(store)) == 6


@pytest.mark.parametrize("seed", range(8))
def test_workers_that_are_lost_change_nothing_in_the_log(kind, monkeypatch, seed: int):
    monkeypatch.setattr(file_list, "MOST_INLINE", 3)
    store = with_old_data(kind())
    tasks = {task: {f"day={day}/{task}": b"x" for day in range(3)} for task in range(6)}
    write_job(store, JOB, tasks, mode=ConflictMode.OVERWRITE)
    run_commit(store, JOB, OVERWRITE, executor=chaos_executor(store, JOB, seed))
    assert data_of_log(store) == data_in(store)
    assert len(data_in(store)) == 18


def test_a_checkpoint_is_saved_after_many_files_whichever_commits_have_brought_them(
    kind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkpoint_module, "FILES", 5)
    store = table_on(kind())
    for number in range(6):
        files = {f"day={number}/{name}": b"x" for name in "ab"}
        committed(store, files, new_job_attempt("/table", f"job_{number}", 0))
    names = {status.name for status in store.list_status(TABLE.checkpoints)}
    assert names == {"6.entry", "10.entry", "parts"}
    assert len(data_of_log(store)) == 12


def test_a_run_that_goes_on_with_a_commit_saves_the_checkpoint(kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoint_module, "ENTRIES", 4)
    store = with_old_data(kind())
    write(store, {"day=1/new": b"3"})
    stopped_at(store, "committed", JOB, AT_ONCE)
    assert run_commit(store, JOB, AT_ONCE).table_version == 4
    assert store.get_status(TABLE.checkpoint(4)) is not None


def test_a_checkpoint_that_cannot_be_saved_is_a_notice(kind):
    store = table_on(kind())
    for number in range(61):
        append(store, TABLE, claim_of(f"old_{number}"), number)
    write(store, OLD)
    faulty = WrappedStore(store, before=at("replace", PermissionError("denied"), end=".entry"))
    report = run_commit(faulty, JOB, AT_ONCE)
    assert report.table_version == 63
    assert report.notices == []
    write(store, {"day=1/new": b"3"}, OTHER_JOB)
    report = run_commit(faulty, OTHER_JOB, AT_ONCE)
    assert report.table_version == 65
    assert "the checkpoint was not saved (denied)" in " ".join(report.notices)


# What it costs


@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE, of_mode(ConflictMode.ERROR_PARTITIONS)])
@pytest.mark.parametrize("jobs_before", [0, 1, 20])
def test_without_rivals_a_small_job_makes_at_most_14_requests_more(
    kind, options: CommitOptions, jobs_before: int
):
    assert more_requests(kind, options, SMALL, jobs_before) <= 14


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE])
@pytest.mark.parametrize(("tasks", "files"), [(10, 20), (1, 200), (200, 1), (7, 15), (3, 133)])
def test_without_rivals_a_large_job_makes_one_request_more_per_list(
    kind, options: CommitOptions, tasks: int, files: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_list, "MOST_INLINE", 10)
    monkeypatch.setattr(file_list, "MOST_FILES", 100)
    assert more_requests(kind, options, job_of(tasks, files)) <= 14 + tasks * files // 100


def test_without_a_log_a_commit_makes_one_request_more(kind):
    def whole(store: StoreOperations) -> None:
        committed(store, {"day=3/new": b"3"}, options=OVERWRITE)

    calls: list[StoreCall] = []
    committed(store := kind(), OLD, OTHER_JOB)
    whole(WrappedStore(store, before=calls.append))
    of_log = [(call.operation, *call.paths) for call in calls if f"/{DIRECTORY}" in call.paths[0]]
    assert of_log == [("read", TABLE.definition)]


SMALL = {0: {"day=3/new": b"3"}, 1: {"day=4/new": b"4"}}


def more_requests(
    kind: Callable[[], MemoryStore],
    options: CommitOptions,
    tasks: Mapping[int, Write],
    jobs_before: int = 1,
) -> int:
    """How many requests more a whole job makes because the destination is a table with a log."""

    def made(store: StoreOperations) -> Counter[str]:
        for number in range(jobs_before):
            before = new_job_attempt("/table", f"before_{number}", 0)
            committed(store, {f"day=1/{number}": b"1"}, before)
        return requests(store, whole) - Counter(sync=99)

    def whole(store: StoreOperations) -> None:
        write_job(store, JOB, tasks, mode=options.mode)
        run_commit(store, JOB, options)

    in_table, plain = table_on(kind()), kind()
    more = made(in_table).total() - made(plain).total()
    assert data_of_log(in_table) == data_in(in_table) == data_in(plain)
    return more


# Crashes, and the same command again


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
@pytest.mark.parametrize(
    ("options", "files"),
    [
        (AT_ONCE, {"day=1/new": b"3"}),
        (OVERWRITE, NEW),
        (of_mode(ConflictMode.OVERWRITE_PARTITIONS), {"day=1/new": b"3"}),
    ],
)
def test_after_a_crash_at_any_request_the_same_command_finishes(
    kind, options: CommitOptions, files: Write
):
    new = partial(begun, kind, files, options.mode)
    run_commit(whole := new(), JOB, options)
    for store in each_crash(new, lambda one: run_commit(one, JOB, options)):
        assert set(data_of_log(store)) <= {*OLD, *files}
        run_commit(store, JOB, options)
        assert kinds_of(store) == kinds_of(whole)
        assert data_of_log(store) == data_in(store) == data_in(whole)
        assert in_flight(store) == []
        assert read_state(store, JOB) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE])
def test_a_job_that_is_committed_in_the_log_ends_although_a_later_job_has_removed_its_files(
    kind, options
):
    """The later job did not look at this one, as beside many others."""
    files = {"day=1/new": b"3"}

    def new() -> MemoryStore:
        store = table_on(kind())
        write(store, files, mode=options.mode)
        return store

    seen = 0
    for store in each_crash(new, lambda one: run_commit(one, JOB, options)):
        if "commit" not in kinds_of(store):
            continue
        seen += 1
        store.delete_file(f"{TABLE.destination}/day=1/new")
        run_commit(store, JOB, options)
        assert read_state(store, JOB) is None
        assert (data_in(store), in_flight(store)) == ({}, [])
    assert seen > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_before_the_commit_entry_old_files_are_whole_and_after_it_the_new_ones(kind):
    new = partial(begun, kind, NEW, ConflictMode.OVERWRITE)
    for store in each_crash(new, lambda one: run_commit(one, JOB, OVERWRITE)):
        files = data_in(store)
        if "commit" not in kinds_of(store)[2:]:
            assert OLD.keys() <= files.keys()
            assert files["day=2/old"] == 2
        else:
            assert "day=1/new" in files


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_after_a_crash_an_abort_or_an_undo_leaves_nothing_in_flight(kind):
    new = partial(begun, kind, NEW, ConflictMode.OVERWRITE)
    undone = 0
    for store in each_crash(new, lambda one: run_commit(one, JOB, OVERWRITE)):
        try:
            run_undo(store, JOB)
        except CommitRecordExistsError:
            run_commit(store, JOB, OVERWRITE)
            assert data_in(store) == sizes(NEW)
        undone += "abort" in kinds_of(store)
        assert in_flight(store) == []
        assert data_of_log(store) == data_in(store)
    assert undone > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_a_crash_of_an_undo_at_any_request_is_finished_by_the_same_command(kind):
    def new() -> MemoryStore:
        store = begun(kind, {"day=1/new": b"3"}, ConflictMode.APPEND)
        stopped_at(store, "sealed", JOB, AT_ONCE)
        assert state_of(store).phase is Phase.RECORDED
        return store

    for store in each_crash(new, lambda one: run_undo(one, JOB)):
        run_undo(store, JOB)
        assert kinds_of(store) == ["claim", "commit", "claim", "abort"]
        assert data_of_log(store) == data_in(store) == sizes(OLD)


def test_an_append_whose_commit_is_in_the_log_cannot_be_undone(kind):
    store = begun(kind, {"day=1/new": b"3"}, ConflictMode.APPEND)
    stopped_at(store, "committed", JOB, AT_ONCE)
    assert kinds_of(store)[-1] == "commit"
    with pytest.raises(CommitRecordExistsError):
        run_undo(store, JOB)
    assert run_commit(store, JOB, AT_ONCE).table_version == 4
    assert data_of_log(store) == data_in(store)


# Errors


def test_a_log_that_is_damaged_after_the_record_leaves_the_commit_unknown(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    content = store.read(TABLE.definition)
    stopped_at(store, "sealed", JOB, OVERWRITE)
    store.write(TABLE.definition, b"{")
    with pytest.raises(CommitStateUnknownError) as caught:
        run_commit(store, JOB, OVERWRITE)
    assert caught.value.exit_code == 3
    assert "table.entry: is not a file of a table log" in caught.value.what
    assert "nothing was changed" not in str(caught.value)
    assert OLD.keys() <= data_in(store).keys()
    store.write(TABLE.definition, content)
    run_commit(store, JOB, OVERWRITE)
    assert data_of_log(store) == data_in(store)


def test_a_file_outside_the_table_is_refused(kind):
    store = table_on(kind())
    write_job(store, JOB, {})
    attempt = set_up_attempt(store, JOB, 0, 0)

    options = of_mode(ConflictMode.OVERWRITE, replaced_roots=("/elsewhere",))
    commit_attempt(store, JOB, 0, attempt)
    with pytest.raises(
        PreflightError, match=r"/elsewhere: is outside memory://test/table, which is a table"
    ):
        run_commit(store, JOB, options)
    assert read_entries(store, TABLE) == []


def test_a_job_without_a_base_can_only_work_blindly(kind):
    store = with_old_data(kind())
    write(store, {"day=3/a": b"1"})
    join_table(store, JOB, adopt_state(store, JOB), TableBase("id", 2, is_late=True))
    with pytest.raises(PreflightError, match="names partitions that it has read"):
        run_commit(store, JOB, of_mode(ConflictMode.APPEND, reads=("day=1",)))
    assert run_commit(store, JOB, AT_ONCE).table_version == 4


def test_a_job_of_hadoops_committer_is_in_the_log(kind):
    store = with_old_data(kind())
    store.mkdirs(JOB.manifests)
    attempt = set_up_attempt(store, JOB, 0, 0)
    write_attempt(store, JOB, attempt, {"day=1/new": b"3"})
    commit_attempt(store, JOB, 0, attempt)
    assert run_commit(store, JOB, AT_ONCE).table_version == 4
    assert data_of_log(store) == data_in(store)
    claim = dict(read_entries(store, TABLE))[3]
    assert isinstance(claim, TableClaim)
    assert (claim.base, claim.nonce) == (None, UNSTAMPED)


def test_a_killed_abort_of_what_a_late_task_left_does_not_hide_what_the_log_says(kind):
    def new() -> MemoryStore:
        store = with_old_data(kind())
        assert committed(store, {"day=1/new": b"3"}) == 4
        committed(store, {"day=3/a": b"1"}, OTHER_JOB)
        attempt = join(JOB.tasks, "attempt_1")
        store.mkdirs(attempt)
        put_file(store, join(attempt, "part-0"), b"rows")
        return store

    decided = 0
    for store in each_crash(new, lambda one: run_abort(one, JOB)):
        decided += phase_of(store) is Phase.ABORTED
        result = run_commit(store, JOB, AT_ONCE)
        assert (result.outcome, result.table_version) == (Outcome.ALREADY_COMMITTED, 4)
        assert run_abort(store, JOB) is False
        assert data_of_log(store) == data_in(store)
    assert decided


# Refused after the claim


@pytest.mark.parametrize("error", [PermissionError("denied"), CommitCancelledError("cancelled")])
def test_a_commit_that_fails_after_its_claim_says_that_the_claim_stays(kind, error: Exception):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    failing = WrappedStore(store, before=at("advance", error, end="recorded"))
    with pytest.raises(RayCommitterError) as caught:
        run_commit(failing, JOB, AT_ONCE)
    assert "still has the claim of this job (version 3), for which other jobs wait" in str(caught.value)
    assert "ray-committer abort memory://test/table --job-id job_1" in caught.value.advice
    assert in_flight(store) == ["job_1"]
    assert run_commit(store, JOB, AT_ONCE).table_version == 4


def test_a_commit_whose_job_is_deleted_after_its_claim_says_that_the_claim_stays(kind):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    delete = do_at("advance", lambda: store.delete_directory(JOB.directory), end="recorded")
    with pytest.raises(CommitStateUnknownError) as caught:
        run_commit(WrappedStore(store, before=delete), JOB, AT_ONCE)
    assert "still has the claim of this job (version 3), for which other jobs wait" in str(caught.value)
    assert in_flight(store) == ["job_1"]


def test_a_job_that_wants_no_data_and_finds_some_after_its_claim_can_go_on_or_be_aborted(kind):
    wants_none = of_mode(ConflictMode.ERROR_PARTITIONS)
    for end in (run_commit, run_abort):
        store = begun(kind, {"day=1/a": b"1"}, ConflictMode.ERROR_PARTITIONS)
        with pytest.raises(
            CommitConflictError, match=r"holds data already.*claim of this job \(version 3"
        ):
            run_commit(store, JOB, wants_none)
        store.delete_file("/table/day=1/old")
        if end is run_abort:
            assert run_abort(store, JOB)
            assert kinds_of(store)[2:] == ["claim", "abort"]
        else:
            assert run_commit(store, JOB, wants_none).table_version == 4
        assert in_flight(store) == []


def test_a_commit_that_is_refused_before_its_claim_says_nothing_of_one(kind):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    with pytest.raises(RayCommitterError) as caught:
        run_commit(store, JOB, CommitOptions(expected_tasks=7))
    assert "claim" not in str(caught.value)


# Others in the table


def test_an_open_job_with_a_claim_is_waited_for_and_named(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    write(store, {"day=1/c": b"c"}, THIRD)
    refuses = CommitOptions(conflict_wait_seconds=0.0, unfinished="refuse")
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, THIRD, refuses)
    assert caught.value.exit_code == 4
    assert "job job_1 (version 3) is at work in day=1, and" in caught.value.what
    assert "ray-committer abort memory://test/table --job-id job_1" in caught.value.advice
    assert state_of(store, THIRD).phase is Phase.OPEN
    assert run_abort(store, JOB)
    assert run_commit(store, THIRD, AT_ONCE).table_version == 6
    assert kinds_of(store)[2:] == ["claim", "abort", "claim", "commit"]
    assert data_of_log(store) == data_in(store)


def test_a_job_that_waits_has_withdrawn_and_goes_on_when_the_other_ends(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    write(store, {"day=1/c": b"c"}, THIRD)
    phases: list[Phase] = []

    def end(call: StoreCall) -> None:
        is_own = call.paths[0].startswith(THIRD.directory)
        if is_own and call.operation == "advance" and call.paths[-1].startswith("open"):
            phases.append(state_of(store, JOB).phase)
            run_abort(store, JOB)

    options = CommitOptions(conflict_wait_seconds=5.0)
    assert run_commit(WrappedStore(store, after=end), THIRD, options).table_version == 6
    assert phases == [Phase.OPEN]


def test_whoever_sees_the_claim_of_an_aborted_job_ends_it(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    advance(store, JOB, adopt_state(store, JOB), Phase.ABORTED)
    assert committed(store, {"day=1/c": b"c"}, THIRD) == 6
    assert kinds_of(store)[2:] == ["claim", "abort", "claim", "commit"]


def test_an_abort_that_dies_before_it_is_decided_says_nothing_in_the_log(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    die = do_at("advance", partial(pytest.fail, "stop"), end="aborted")
    with pytest.raises(pytest.fail.Exception):
        run_abort(WrappedStore(store, before=die), JOB)
    assert kinds_of(store)[2:] == ["claim"]
    assert run_commit(store, JOB, OVERWRITE).table_version == 4
    assert data_of_log(store) == data_in(store)


def test_who_claims_for_a_job_that_was_aborted_meanwhile_ends_the_claim(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)

    def abort() -> None:
        advance(store, JOB, adopt_state(store, JOB), Phase.ABORTED)

    meanwhile = do_at("rename", abort, end="003.entry")
    with pytest.raises(CommitAbortedError):
        run_commit(WrappedStore(store, before=meanwhile), JOB, OVERWRITE)
    assert kinds_of(store)[2:] == ["claim", "abort"]
    assert data_of_log(store) == data_in(store)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_claim_was_given_up_stops_before_it_removes_an_old_file(kind, when: str):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    give_up = do_at("advance", lambda: append(store, TABLE, abort_of(3), 3), end="sealed")
    with pytest.raises(CommitStateUnknownError, match=r"004.entry: says that the claim .* was given up"):
        run_commit(WrappedStore(store, **{when: give_up}), JOB, OVERWRITE)
    assert OLD.keys() <= data_in(store).keys()
    assert kinds_of(store)[2:] == ["claim", "abort"]
    with pytest.raises(CommitStateUnknownError):
        run_commit(store, JOB, OVERWRITE)
    assert OLD.keys() <= data_in(store).keys()
    assert kinds_of(store)[2:] == ["claim", "abort"]


def test_a_commit_stops_if_another_claim_of_its_attempt_counts(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)

    def commit_other_claim() -> None:
        own = read_entry(store, TABLE, 3)
        assert isinstance(own, TableClaim)
        append(store, TABLE, structs.replace(own, partitions=["day=1"]), 3)
        append(store, TABLE, structs.replace(commit_of(4), job_id="job_1"), 4)

    other = do_at("advance", commit_other_claim, end="sealed")
    with pytest.raises(
        CommitStateUnknownError, match=r"005.entry: says that another claim of job job_1"
    ):
        run_commit(WrappedStore(store, before=other), JOB, OVERWRITE)
    assert OLD.keys() <= data_in(store).keys()
    assert kinds_of(store)[2:] == ["claim", "claim", "commit"]


def test_a_claim_that_the_log_commits_is_not_ended_as_that_of_an_aborted_job(kind):
    store = begun(kind, NEW, ConflictMode.OVERWRITE)
    stopped_at(store, "recorded", JOB, OVERWRITE)
    commit_entry = structs.replace(commit_of(3), removed=inline_set([ListedFile("day=1/old", 1)]))
    append(store, TABLE, commit_entry, 3)
    run_abort(store, JOB)
    write(store, {"day=1/c": b"c"}, THIRD)
    with pytest.raises(CommitConflictError, match="job job_1"):
        run_commit(store, THIRD, AT_ONCE)
    assert kinds_of(store)[2:] == ["claim", "commit"]


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
def test_who_is_late_makes_no_claim_for_a_job_that_was_aborted_and_is_gone(kind, mode: ConflictMode):
    store = begun(kind, NEW, mode)
    abort = do_at("rename", lambda: run_abort(store, JOB), end="003.entry")
    with pytest.raises(RayCommitterError):
        run_commit(WrappedStore(store, before=abort), JOB, of_mode(mode))
    assert kinds_of(store)[2:] == ["abort"]
    assert in_flight(store) == []
    assert committed(store, {"day=1/c": b"c"}, THIRD, OVERWRITE) == 5


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("has_claim", [False, True])
def test_the_abort_of_a_job_is_in_the_log_once_however_often_it_is_repeated(
    kind, is_late: bool, has_claim: bool
):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    if is_late:
        join_table(store, JOB, adopt_state(store, JOB), TableBase("id", 2, is_late=True))
    if has_claim:
        stopped_at(store, "recorded", JOB, AT_ONCE)
    aborted = advance(store, JOB, adopt_state(store, JOB), Phase.ABORTED).state
    for _ in range(3):
        release_own(store, JOB, aborted, 1)
        committed(store, {f"day=1/{len(kinds_of(store))}": b"c"}, THIRD)
    assert kinds_of(store)[2:] == [*(["claim"] * has_claim), "abort", *(["claim", "commit"] * 3)]


def test_a_newer_attempt_ends_the_claim_of_an_older_one(kind):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    stopped_at(store, "recorded", JOB, AT_ONCE)
    second = new_job_attempt("/table", JOB.job_id, 1)
    assert committed(store, {"day=1/b": b"2"}, second) == 6
    assert [type(one).__name__ for _, one in read_entries(store, TABLE)][3:] in (
        ["TableClaim", "TableAbort", "TableCommit"],
        ["TableAbort", "TableClaim", "TableCommit"],
    )
    assert in_flight(store) == []


def test_a_run_that_is_to_do_other_work_claims_that_too(kind):
    store = begun(kind, {"day=1/a": b"1"}, ConflictMode.APPEND)
    stopped_at(store, "recorded", JOB, AT_ONCE)
    assert run_commit(store, JOB, OVERWRITE).table_version == 5
    assert kinds_of(store)[2:] == ["claim", "claim", "commit", "done"]
    entries = dict(read_entries(store, TABLE))
    assert [entries[version].partitions for version in (3, 4)] == [["day=1"], [""]]
    assert entries[5].claim == 4
    assert in_flight(store) == []
    assert data_of_log(store) == data_in(store) == {"day=1/a": 1}


@pytest.mark.parametrize("flat", ["flat", "generations"])  # where tasks can commit after the freeze
def test_a_task_that_commits_after_the_claim_is_in_the_next_claim_of_the_same_command(flat: str):
    store = begun(KINDS[flat], {"day=1/a": b"1"}, ConflictMode.APPEND)
    stopped_at(store, "recorded", JOB, AT_ONCE)
    advance(store, JOB, adopt_state(store, JOB), Phase.OPEN)
    attempt = set_up_attempt(store, JOB, 7, 0)
    write_attempt(store, JOB, attempt, {"day=3/late": b"22"})
    commit_attempt(store, JOB, 7, attempt)
    run_commit(store, JOB, AT_ONCE)
    assert kinds_of(store)[2:] == ["claim", "claim", "commit"]
    assert in_flight(store) == []
    assert data_of_log(store) == data_in(store) == sizes(OLD, {"day=1/a": b"1", "day=3/late": b"22"})
