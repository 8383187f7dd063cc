"""Work under a run id is committed once: by runs again, beside others, after deaths and undos."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import get_args

import pytest

from ray_committer.errors import CommitConflictError, RayCommitterError, SettingsError
from ray_committer.job_files.job_state import read_state
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions, Unfinished
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.resolve_claim import resolve_on
from ray_committer.table_jobs.undo_version import plan_undo, undo_version
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
)
from ray_committer.testing.harness import run_undo
from tests.commits.tables import (
    OLD,
    THIRD,
    claimants_at_work,
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
from tests.commits.test_table_jobs import context, copy
from tests.stages.support import EACH_TABLE, JOB, KINDS_OF_TABLES, calls_of, each_crash
from tests.tables.support import TABLE, table_on
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_pauses")

RUN = "orders-2026-01-31"
FIRST, SECOND = {"day=1/first": b"1111"}, {"day=1/second": b"22222"}
ELSEWHERE = {"day=7/second": b"22222"}
AGAIN = new_job_attempt("/table", "again", 0)
_ids = itertools.count()

Files = Mapping[str, bytes]


@pytest.fixture(params=EACH_TABLE)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS_OF_TABLES[request.param]


def new_session(mode: ConflictMode = ConflictMode.APPEND, **fields: object) -> CommitOptions:
    """The options of a session that has committed nothing yet."""
    return of_mode(mode, **{"run_id": RUN, "known_jobs": (), **fields})


def run(
    store: StoreOperations, files: Files, job: JobAttempt, options: CommitOptions | None = None
) -> CommitResult:
    options = options or new_session()
    write(store, files, job, options.mode, options.run_id)
    return run_commit(store, job, options)


def undo(store: StoreOperations, version: int) -> int | None:
    job = new_job_attempt("/table", f"undo-{next(_ids)}", 0)
    return undo_version(
        context(store, job=job), plan_undo(store, TABLE, "id", version), copy=copy
    ).table_version


def is_clean(store: StoreOperations, *files: Files) -> bool:
    """Whether the table has exactly these files, and nothing of a job is left."""
    assert in_flight(store) == []
    assert store.get_status("/table/_temporary") is None or not store.list_status("/table/_temporary")
    return data_in(store) == data_of_log(store) == sizes(*files)


# Run again


@pytest.mark.parametrize("mode", list(ConflictMode))
def test_a_second_run_ends_well_and_leaves_nothing(kind, mode: ConflictMode):
    store = table_on(kind())
    first = run(store, FIRST, JOB, new_session(mode))
    assert first.run_id == RUN
    second = run(store, SECOND, AGAIN, new_session(mode))
    assert (second.outcome, second.table_version) == (Outcome.ALREADY_COMMITTED, first.table_version)
    assert (second.run_id, second.committed_by) == (RUN, "job_1")
    assert f"committed already as version {first.table_version}" in second.notices[-1]
    assert is_clean(store, FIRST)


def test_another_run_id_is_other_work(kind):
    store = with_old_data(kind())
    run(store, FIRST, JOB)
    assert run(store, SECOND, AGAIN, new_session(run_id="other")).outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, FIRST, SECOND)


def test_the_same_command_says_it_again_after_the_job_is_gone(kind):
    store = with_old_data(kind())
    version = run(store, FIRST, JOB).table_version
    run(store, SECOND, AGAIN)
    again = run_commit(store, AGAIN, new_session())
    assert (again.outcome, again.table_version) == (Outcome.ALREADY_COMMITTED, version)


def test_a_commit_without_a_run_id_uses_that_of_the_set_up(kind):
    store = with_old_data(kind())
    run(store, FIRST, JOB)
    write(store, SECOND, AGAIN, run_id=RUN)
    assert run_commit(store, AGAIN, of_mode(ConflictMode.APPEND, known_jobs=())).committed_by == "job_1"


def test_a_commit_under_another_run_id_than_the_set_up_is_refused(kind):
    store = with_old_data(kind())
    write(store, SECOND, AGAIN, run_id="other")
    with pytest.raises(SettingsError, match="was set up under run id other"):
        run_commit(store, AGAIN, new_session())
    assert run_commit(store, AGAIN, new_session(run_id=None)).outcome is Outcome.COMMITTED


def test_without_a_log_a_run_id_is_refused_before_anything_is_made():
    store = MemoryStore()
    with pytest.raises(SettingsError, match=r"is not a table with a log.*: ray-committer table init"):
        write(store, FIRST, JOB, run_id=RUN)
    assert store.get_status("/table/_temporary") is None
    write(store, FIRST, JOB)
    with pytest.raises(SettingsError, match="is not a table with a log"):
        run_commit(store, JOB, new_session())
    assert read_state(store, JOB) is not None


# Other work under the same run id


@pytest.mark.parametrize(
    ("files", "mode"),
    [(ELSEWHERE, ConflictMode.APPEND), (SECOND, ConflictMode.OVERWRITE_PARTITIONS)],
    ids=["other partitions", "another mode"],
)
def test_other_work_under_a_run_id_is_refused_and_kept(kind, files: Files, mode: ConflictMode):
    store = with_old_data(kind())
    run(store, FIRST, JOB)
    with pytest.raises(SettingsError, match="which has done other work: append of day=1, not") as raised:
        run(store, files, AGAIN, new_session(mode))
    assert raised.value.exit_code == 2
    assert data_in(store) == sizes(OLD, FIRST)
    assert read_state(store, AGAIN) is not None  # and its rows
    assert run_abort(store, AGAIN)


def test_a_second_write_of_a_session_is_refused_and_kept(kind):
    store, options = with_old_data(kind()), new_session(run_id=f"{RUN}-{next(_ids)}", known_jobs=None)
    run(store, FIRST, JOB, options)
    with pytest.raises(SettingsError, match="this session has written under run id"):
        run(store, SECOND, AGAIN, options)
    assert data_in(store) == sizes(OLD, FIRST)
    assert read_state(store, AGAIN) is not None


def test_so_is_one_after_the_answer_that_the_work_is_committed(kind):
    store, options = with_old_data(kind()), new_session(run_id=f"{RUN}-{next(_ids)}", known_jobs=None)
    run(store, FIRST, JOB, options.changed(known_jobs=()))
    assert run(store, SECOND, AGAIN, options).committed_by == "job_1"
    with pytest.raises(SettingsError, match="this session has written"):
        run(store, SECOND, THIRD, options)


def test_the_driver_of_spark_names_the_jobs_of_its_session():
    store = with_old_data(MemoryStore())
    run(store, FIRST, JOB)
    with pytest.raises(SettingsError, match="this session has written"):
        run(store, SECOND, AGAIN, new_session(known_jobs=("job_1",)))


def test_after_a_commit_that_failed_a_session_can_write_again(kind):
    store, options = with_old_data(kind()), new_session(run_id=f"{RUN}-{next(_ids)}", known_jobs=None)
    write(store, FIRST, JOB, run_id=options.run_id)

    def fail(call: StoreCall) -> None:
        if call.operation in ("replace", "advance", "create") and any(
            path.endswith("_SUCCESS") for path in call.paths
        ):
            raise PermissionError(13, "denied", call.paths[-1])

    with pytest.raises(RayCommitterError):  # although it is committed
        run_commit(WrappedStore(store, before=fail), JOB, options)
    assert data_in(store) == sizes(OLD, FIRST)
    assert run(store, SECOND, AGAIN, options).committed_by == "job_1"
    assert data_in(store) == data_of_log(store) == sizes(OLD, FIRST)


def test_of_two_threads_of_a_session_one_is_refused():
    store, options = with_old_data(MemoryStore()), new_session(run_id="at once", known_jobs=None)
    write(store, FIRST, JOB, run_id="at once")
    write(store, SECOND, AGAIN, run_id="at once")
    said: list[object] = []

    def commit(job: JobAttempt) -> None:
        try:
            said.append(run_commit(store, job, options).outcome)
        except SettingsError as e:
            said.append(type(e))

    at_once([partial(commit, JOB), partial(commit, AGAIN)])
    assert sorted(map(str, said)) == sorted(map(str, [Outcome.COMMITTED, SettingsError]))


# Beside others, and after deaths


@pytest.mark.parametrize("files", [SECOND, ELSEWHERE], ids=["the same partitions", "other partitions"])
@pytest.mark.parametrize("phase", ["sealed", "committed"])
def test_a_commit_that_died_is_ended_first(kind, files: Files, phase: str):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    write(store, files, AGAIN, run_id=RUN)
    stopped_at(store, phase, JOB, new_session())
    if files is ELSEWHERE:
        with pytest.raises(SettingsError, match="which has done other work"):
            run_commit(store, AGAIN, new_session())
        run_abort(store, AGAIN)
        run_commit(store, JOB, new_session())  # which may have left its own directory
    else:
        assert run_commit(store, AGAIN, new_session()).committed_by == "job_1"
    assert is_clean(store, OLD, FIRST)


def test_a_set_up_ends_a_commit_of_its_work_that_died(kind):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    stopped_at(store, "sealed", JOB, new_session())
    with pytest.raises(CommitConflictError):
        write(store, SECOND, THIRD, run_id="other")
    write(store, SECOND, AGAIN, run_id=RUN)
    assert data_in(store) == data_of_log(store) == sizes(OLD, FIRST)


def test_a_job_at_work_is_waited_for_and_then_named(kind):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    write(store, ELSEWHERE, AGAIN, run_id=RUN)
    stopped_at(store, "recorded", JOB, new_session())
    with (
        claimants_at_work(store),
        pytest.raises(CommitConflictError, match=f"job job_1 .*under run id {RUN}.*job-id job_1") as e,
    ):
        run_commit(store, AGAIN, new_session())
    assert e.value.exit_code == 4
    assert run_abort(store, JOB)
    assert run_commit(store, AGAIN, new_session()).outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, ELSEWHERE)


@pytest.mark.parametrize("unfinished", [None, *get_args(Unfinished)])
def test_a_claim_of_a_run_that_died_before_its_record_is_ended(kind, unfinished: Unfinished | None):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    write(store, ELSEWHERE, AGAIN, run_id=RUN)
    stopped_at(store, "recorded", JOB, new_session())
    result = run_commit(store, AGAIN, new_session(unfinished=unfinished))
    assert result.outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, ELSEWHERE)


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE_PARTITIONS])
def test_after_a_death_at_any_request_the_next_run_leaves_the_work_once(kind, mode: ConflictMode):
    options = new_session(mode)

    def begun() -> MemoryStore:
        store = with_old_data(kind())
        write(store, FIRST, JOB, mode, run_id=RUN)
        return store

    kept = OLD if mode is ConflictMode.APPEND else {"day=2/old": b"22"}
    for store in each_crash(begun, lambda store: run_commit(store, JOB, options)):
        said = run(store, SECOND, AGAIN, options)
        once = FIRST if said.outcome is Outcome.ALREADY_COMMITTED else SECOND
        assert data_in(store) == data_of_log(store) == sizes(kept, once)
        assert in_flight(store) == []
        assert run(store, {"day=1/third": b"3"}, THIRD, options).outcome is Outcome.ALREADY_COMMITTED
        assert data_in(store) == data_of_log(store) == sizes(kept, once)


def test_after_a_death_of_the_set_up_at_any_request_the_next_run_is_committed(kind):
    def set_up(store: StoreOperations) -> None:
        write(store, FIRST, JOB, run_id=RUN)

    for store in each_crash(lambda: with_old_data(kind()), set_up):
        assert run(store, SECOND, AGAIN).outcome is Outcome.COMMITTED
        assert data_in(store) == data_of_log(store) == sizes(OLD, SECOND)


def test_a_run_id_costs_a_few_requests(kind):
    def calls(run_id: str | None) -> tuple[int, int]:
        store = with_old_data(kind())
        options = new_session(run_id=run_id)
        set_up = calls_of(store, lambda store: write(store, FIRST, JOB, run_id=run_id))
        return len(set_up), len(calls_of(store, lambda store: run_commit(store, JOB, options)))

    (set_up, commit), (more_set_up, more_commit) = calls(None), calls(RUN)
    assert more_set_up - set_up <= 3
    assert more_commit - commit <= 7


def test_after_a_death_of_the_second_run_at_any_request_the_same_command_says_it(kind):
    def begun() -> MemoryStore:
        store = with_old_data(kind())
        run(store, FIRST, JOB)
        write(store, SECOND, AGAIN, run_id=RUN)
        return store

    for store in each_crash(begun, lambda store: run_commit(store, AGAIN, new_session())):
        assert run_commit(store, AGAIN, new_session()).committed_by == "job_1"
        assert is_clean(store, OLD, FIRST)


@pytest.mark.parametrize("files", [SECOND, ELSEWHERE], ids=["the same partitions", "other partitions"])
def test_beside_another_run_at_any_request_the_work_is_there_once(kind, files: Files):
    def begun() -> MemoryStore:
        store = with_old_data(kind())
        write(store, FIRST, JOB, run_id=RUN)
        write(store, files, AGAIN, run_id=RUN)
        return store

    calls = len(calls_of(begun(), lambda store: run_commit(store, JOB, new_session())))
    for number in range(1, calls + 1):
        store = begun()
        said: dict[str, str] = {}

        def other(
            call: StoreCall, store: MemoryStore = store, said: dict = said, at: int = number
        ) -> None:
            if call.number == at:
                said["again"] = commit(store, AGAIN)

        said["job_1"] = commit(WrappedStore(store, before=other), JOB)
        for job in (JOB, AGAIN):
            if said[job.job_id] == "refused" and read_state(store, job) is not None:
                said[job.job_id] = commit(store, job)
        assert data_in(store) == data_of_log(store)
        assert data_in(store) in (sizes(OLD, FIRST), sizes(OLD, files)), (number, said)
        assert in_flight(store) == []


def commit(store: StoreOperations, job: JobAttempt) -> str:
    try:
        return run_commit(store, job, new_session()).outcome.value
    except (CommitConflictError, SettingsError):
        return "refused"
    except RayCommitterError as e:
        return type(e).__name__


# Undo


def test_an_undo_of_a_recorded_job_frees_the_run_id(kind):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    stopped_at(store, "sealed", JOB, new_session())
    assert run_undo(store, JOB)
    assert run(store, SECOND, AGAIN).outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, SECOND)


def test_the_undo_of_a_version_frees_its_run_id_and_its_undo_takes_it_again(kind):
    store = with_old_data(kind())
    first = run(store, FIRST, JOB).table_version or 0
    assert run(store, SECOND, AGAIN).table_version == first
    undone = undo(store, first) or 0
    assert is_clean(store, OLD)
    second = run(store, SECOND, THIRD)
    assert second.outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, SECOND)
    assert run(store, FIRST, AGAIN).committed_by == "job_3"
    undo(store, second.table_version or 0)
    assert undone < (second.table_version or 0)
    assert is_clean(store, OLD)


def test_an_undo_that_is_repeated_says_what_became_of_the_first_one(kind):
    def begun() -> MemoryStore:
        store = with_old_data(kind())
        assert run(store, FIRST, JOB).table_version == 4
        return store

    said = set()
    for store in each_crash(begun, lambda store: undo(store, 4)):
        if kinds_of(store).count("commit") == 3:
            with pytest.raises(CommitConflictError) as caught:
                plan_undo(store, TABLE, "id", 4)
            expected = "has not removed all" if in_flight(store) else "was undone before, as version 6"
            assert expected in caught.value.what
            said.add(expected)
    assert len(said) == 2


def test_in_one_session_work_that_was_undone_is_done_again(kind):
    store, options = with_old_data(kind()), new_session(run_id=f"{RUN}-{next(_ids)}", known_jobs=None)
    undo(store, run(store, FIRST, JOB, options).table_version or 0)
    assert run(store, SECOND, AGAIN, options).outcome is Outcome.COMMITTED
    with pytest.raises(SettingsError, match="this session has written"):
        run(store, FIRST, THIRD, options)


def kept_overwrite_of(store: StoreOperations) -> int:
    """The version of an overwrite under the run id whose old files are kept."""
    options = new_session(ConflictMode.OVERWRITE_PARTITIONS, keep_replaced=True)
    return run(store, FIRST, JOB, options).table_version or 0


@pytest.mark.parametrize("kind", ["directories", "generations"], indirect=True)
def test_an_undo_of_an_undo_makes_the_run_committed_again(kind):
    store = with_old_data(kind())
    keeping = CommitOptions(keep_replaced=True)
    first = kept_overwrite_of(store)
    job = new_job_attempt("/table", f"undo-{next(_ids)}", 0)
    found = context(store, job=job)
    plan = plan_undo(store, TABLE, "id", first)
    undone = undo_version(replace(found, options=keeping), plan, copy=copy).table_version or 0
    assert is_clean(store, OLD)
    back = undo(store, undone)
    assert data_of_log(store) == sizes(FIRST, {"day=2/old": b"22"})
    again = run(store, SECOND, AGAIN, new_session(ConflictMode.OVERWRITE_PARTITIONS))
    assert (again.outcome, again.table_version) == (Outcome.ALREADY_COMMITTED, back)


@pytest.mark.parametrize("kind", ["directories", "generations"], indirect=True)
def test_an_undo_of_an_undo_is_refused_once_the_run_was_committed_again(kind):
    store = with_old_data(kind())
    first = kept_overwrite_of(store)
    job = new_job_attempt("/table", f"undo-{next(_ids)}", 0)
    keeping = replace(context(store, job=job), options=CommitOptions(keep_replaced=True))
    undone = undo_version(keeping, plan_undo(store, TABLE, "id", first), copy=copy).table_version or 0
    again = run(store, ELSEWHERE, AGAIN, new_session(ConflictMode.OVERWRITE_PARTITIONS))
    assert again.outcome is Outcome.COMMITTED
    with pytest.raises(CommitConflictError, match=f"run id {RUN} is committed again as version"):
        undo(store, undone)
    assert is_clean(store, OLD, ELSEWHERE)


def test_beside_an_undo_at_any_request_the_work_is_there_once_or_not_at_all(kind):
    start = with_old_data(kind())
    version = run(start, FIRST, JOB).table_version or 0
    write(start, SECOND, AGAIN, run_id=RUN)
    calls = len(calls_of(start.copy(), lambda store: undo(store, version)))
    for number in range(1, calls + 1):
        store, said = start.copy(), list[str]()

        def other(
            call: StoreCall, store: MemoryStore = store, said: list = said, at: int = number
        ) -> None:
            if call.number == at:
                said.append(commit(store, AGAIN))

        undo(WrappedStore(store, before=other), version)
        if said == ["refused"]:
            said = [commit(store, AGAIN)]
        assert said in (["already committed"], ["committed"]), (number, said)
        assert is_clean(store, OLD, *([SECOND] if said == ["committed"] else []))


def test_after_a_death_of_an_undo_at_any_request_the_next_run_leaves_the_work_once(kind):
    start = with_old_data(kind())
    version = run(start, FIRST, JOB).table_version or 0

    def take_back(store: StoreOperations) -> None:
        job = new_job_attempt("/table", "undo", 0)
        undo_version(context(store, job=job), plan_undo(store, TABLE, "id", version), copy=copy)

    for store in each_crash(start.copy, take_back):
        write(store, SECOND, AGAIN, run_id=RUN)
        said = commit(store, AGAIN)
        assert said in ("committed", "already committed")
        assert data_in(store) == data_of_log(store) == sizes(OLD, FIRST if "already" in said else SECOND)
        assert in_flight(store) == []


def test_a_claim_that_a_person_gives_up_frees_the_run_id(kind):
    store = with_old_data(kind())
    write(store, FIRST, JOB, run_id=RUN)
    write(store, SECOND, AGAIN, run_id=RUN)
    stopped_at(store, "sealed", JOB, new_session())
    store.delete_directory("/table/_temporary/job_1")
    with pytest.raises(CommitConflictError, match=r"table resolve .* job_1"):
        run_commit(store, AGAIN, new_session())
    resolve_on(store, "/table", "job_1", waiting=Waiting(0.0))
    assert run_commit(store, AGAIN, new_session()).outcome is Outcome.COMMITTED
    assert is_clean(store, OLD, SECOND)


# Checkpoints


def test_a_checkpoint_keeps_run_ids_and_the_next_one_too(kind):
    store = with_old_data(kind())
    first = run(store, FIRST, JOB).table_version
    assert save_checkpoint(store, TABLE, "id") is None
    assert run(store, SECOND, AGAIN).table_version == first
    run(store, SECOND, THIRD, new_session(run_id="other"))
    assert save_checkpoint(store, TABLE, "id") is None
    for run_id in (RUN, "other"):
        job = new_job_attempt("/table", f"job-{next(_ids)}", 0)
        assert run(store, SECOND, job, new_session(run_id=run_id)).outcome is Outcome.ALREADY_COMMITTED
    with pytest.raises(SettingsError, match="other work"):
        run(store, ELSEWHERE, new_job_attempt("/table", "elsewhere", 0))


def test_a_list_of_run_ids_that_is_lost_is_read_from_the_log(kind):
    store = with_old_data(kind())
    first = run(store, FIRST, JOB).table_version
    save_checkpoint(store, TABLE, "id")
    for one in store.list_status(TABLE.parts):
        store.delete_file(one.path)
    assert run(store, SECOND, AGAIN).table_version == first
    assert save_checkpoint(store, TABLE, "id") is None
