"""A job is decided once nobody is in its way; whatever is found wrong, it is open as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.owners import at_work
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import Claim, CommitRecord, ConflictMode, Declaration, decode_claim
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.declare_job import declare_job, withdraw
from ray_committer.stages.old_data.mode_roots import MOST_WRITES
from ray_committer.stages.preflight import preflight
from ray_committer.stages.record_job import record_job
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt
from tests.stages.support import (
    JOB,
    KINDS,
    NOW,
    OTHER_JOB,
    calls_of,
    context,
    do_at,
    each_of,
    phase_of,
    seen_in,
    state_of,
    with_job,
)

APPEND, OVERWRITE, ERROR = ConflictMode.APPEND, ConflictMode.OVERWRITE, ConflictMode.ERROR
RUN, OTHER_RUN = "run", "another run"
WAIT = 0.03


store = each_of("directories", "flat")


def options(mode: ConflictMode = APPEND, **fields: object) -> CommitOptions:
    return CommitOptions(**{"mode": mode, "conflict_wait_seconds": WAIT, **fields})  # type: ignore[arg-type]


def write(store: StoreOperations, job: JobAttempt = JOB, mode: ConflictMode = APPEND) -> None:
    write_job(store, job, {0: {f"{job.job_id}-a": b"1"}, 1: {f"p=1/{job.job_id}-b": b"2"}}, mode=mode)


def decide(
    store: StoreOperations,
    mode: ConflictMode = APPEND,
    *,
    job: JobAttempt = JOB,
    run: str = RUN,
    replaced_roots: tuple[str, ...] = (),
    **fields: object,
) -> tuple[Seen, CommitRecord]:
    found = context(store, options(mode, **fields), job=job)
    seen, commit = seen_in(store, job), CommitRun(found, JobStatus(job), replaced_roots, name=run)
    loaded = commit.load(seen.state)
    preflight(found, loaded)
    with at_work(run):
        recorded = record_job(commit, seen, loaded)
    assert commit.progress.record is not None
    return recorded, commit.progress.record


def declared(
    store: StoreOperations, writes: str, excludes: tuple[str, ...] = (), job: JobAttempt = OTHER_JOB
) -> Seen:
    """Another job of which a run has declared what it writes."""
    write(store, job)
    return declare_job(
        context(store, job=job), seen_in(store, job), Claim([writes], [*excludes]), OTHER_RUN
    )


def recorded(
    store: StoreOperations, mode: ConflictMode = APPEND, job: JobAttempt = OTHER_JOB, **fields: object
) -> Seen:
    """Another job whose commit has been recorded."""
    write(store, job, mode)
    return decide(store, mode, job=job, run=OTHER_RUN, **fields)[0]


# What is decided


def test_the_state_names_the_record_and_the_record_says_what_the_job_is(store: MemoryStore):
    write(store)
    seen, record = decide(store)
    assert seen == read_state(store, JOB)
    assert seen.phase is Phase.RECORDED
    assert load_commit_record(store, JOB, seen.state) == record
    assert (record.job_id, record.job_attempt, record.created_milliseconds) == ("job_1", 0, NOW)
    assert (record.tasks, len(record.packs), record.files, record.bytes) == (2, 1, 2, 2)
    assert (record.owner.run, record.nonce) == (RUN, seen.state.record)


def test_the_record_is_made_from_the_very_declaration_that_has_looked(store: MemoryStore):
    write(store)
    found: list[Declaration] = []

    def note(call: StoreCall) -> None:
        if call.operation == "advance" and ".declared" in f".{call.paths[-1]}":
            seen = seen_in(store)
            path = JOB.content(seen.state.nonce)
            found.append(decode_claim(seen.content.encode() or store.read(path), path))

    _, record = decide(WrappedStore(store, after=note))
    assert [one.claim for one in found] == [record.claim]
    assert [one.owner for one in found] == [record.owner]


def test_the_record_names_packs_as_they_were_saved(store: MemoryStore, no_pauses):
    """They are saved at the same time, under names that are known before; one is saved under another."""
    write(store)
    lost = iter([StoreUnavailableError("/", "no answer")])

    def lose(call: StoreCall) -> None:
        if call.paths[0].startswith(JOB.packs):
            for error in lost:
                raise error

    _, record = decide(WrappedStore(store, before=lose))
    names = {status.name for status in store.list_status(JOB.packs)}
    assert {ref.name for ref in record.packs} == names
    assert next(lost, None) is None


@pytest.mark.parametrize(
    ("mode", "replaced_roots", "writes", "excludes"),
    [
        (APPEND, (), ["/table"], []),
        (ERROR, (), ["/table"], ["/table"]),
        (OVERWRITE, (), ["/table"], ["/table"]),
        (OVERWRITE, ("/table/p=1",), ["/table"], ["/table/p=1"]),
    ],
)
def test_a_job_claims_what_it_writes_and_excludes_others_from_what_it_replaces(
    mode: ConflictMode, replaced_roots: tuple[str, ...], writes: list[str], excludes: list[str]
):
    store = MemoryStore()
    write(store, mode=mode if mode is OVERWRITE else APPEND)
    _, record = decide(store, mode, replaced_roots=replaced_roots)
    assert record.claim == Claim(writes, excludes)


@pytest.mark.parametrize(("mode", "is_first"), [(APPEND, True), (ERROR, False)])
def test_the_record_of_an_append_is_written_beside_the_look_at_the_others(
    mode: ConflictMode, is_first: bool
):
    store = MemoryStore()
    write(store)
    calls = calls_of(store, lambda one: decide(one, mode))
    looked = next(n for n, one in enumerate(calls) if one.paths == (JOB.temporary,))
    written = next(
        n for n, one in enumerate(calls) if one.paths == (JOB.content(state_of(store).record),)
    )
    assert (written < looked) == is_first


@pytest.mark.parametrize(("directories", "is_named"), [(1, True), (MOST_WRITES, True), (150, False)])
def test_a_claim_names_each_directory_or_if_there_are_many_the_destination(
    directories: int, is_named: bool
):
    store = MemoryStore()
    files = {f"p={number:03d}/a": b"x" for number in range(directories)}
    write_job(store, JOB, {0: files})
    _, record = decide(store)
    wanted = [f"/table/{name.removesuffix('/a')}" for name in files] if is_named else ["/table"]
    assert record.claim.writes == wanted


def test_old_files_are_in_the_record_of_who_replaces_them_and_namesakes_apart(store: MemoryStore):
    put_file(store, "/table/old", b"0")
    put_file(store, "/table/job_1-a", b"0")
    write(store, mode=OVERWRITE)
    _, record = decide(store, OVERWRITE)
    assert [file.path for file in record.replaced] == ["/table/old"]
    assert [file.path for file in record.overwritten] == ["/table/job_1-a"]


# Other jobs


@pytest.mark.parametrize(
    ("mine", "other"),
    [(OVERWRITE, APPEND), (APPEND, OVERWRITE), (OVERWRITE, OVERWRITE), (ERROR, APPEND), (APPEND, ERROR)],
)
def test_beside_a_commit_that_stopped_a_job_that_cannot_be_beside_it_is_refused_at_once(
    store: MemoryStore, mine: ConflictMode, other: ConflictMode
):
    write(store, mode=mine if mine is OVERWRITE else APPEND)
    recorded(store, other)
    with pytest.raises(
        CommitConflictError, match=r"job_2.*finish it with: ray-committer commit"
    ) as caught:
        decide(store, mine, conflict_wait_seconds=60.0, unfinished="refuse")
    assert "Nothing was changed" in str(caught.value)
    assert phase_of(store) is Phase.OPEN
    assert phase_of(store, OTHER_JOB) is Phase.RECORDED


@pytest.mark.parametrize("other", [APPEND, OVERWRITE])
def test_a_commit_that_stopped_is_superseded_by_a_job_that_replaces_all_of_it(
    store: MemoryStore, other: ConflictMode
):
    put_file(store, "/table/p=1/old", b"0")
    write(store, mode=OVERWRITE)
    recorded(store, other)
    assert [file.path for file in decide(store, OVERWRITE)[1].replaced] == ["/table/p=1/old"]
    assert phase_of(store, OTHER_JOB) is None


@pytest.mark.parametrize("roots", [("/table/p=1",), ("/table/p=1", "/table/p=2")])
def test_a_job_that_replaces_a_part_of_a_commit_that_stopped_is_refused(roots: tuple[str, ...]):
    store = with_job({0: {"p=1/a": b"x"}}, mode=OVERWRITE)
    recorded(store)
    with pytest.raises(CommitConflictError, match="job_2"):
        decide(store, OVERWRITE, replaced_roots=roots)
    assert phase_of(store, OTHER_JOB) is Phase.RECORDED


def test_who_is_alive_is_waited_for_and_then_named_with_what_it_writes(store: MemoryStore):
    write(store, mode=OVERWRITE)
    recorded(store)
    with (
        at_work(OTHER_RUN),
        pytest.raises(CommitConflictError, match=rf"writes to memory://test/table.*waited {WAIT:g} s"),
    ):
        decide(store, OVERWRITE)
    assert phase_of(store) is Phase.OPEN


def test_a_declaration_that_others_withdraw_does_not_make_the_wait_longer(store: MemoryStore):
    write(store, mode=OVERWRITE)
    recorded(store)
    looks: list[int] = []

    def note(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[-1].startswith(Phase.DECLARED):
            looks.append(0)
        elif call.operation == "read" and call.paths[0].startswith(OTHER_JOB.state):
            looks[-1] += 1
        elif call.operation == "advance" and len(looks) < 4:
            advance(store, JOB, seen_in(store), Phase.OPEN)

    found = context(WrappedStore(store, before=note), options(OVERWRITE))
    there = read_job(store, JOB)
    with at_work(OTHER_RUN), pytest.raises(CommitConflictError, match=rf"waited {WAIT:g} s"):
        commit_job(found, there)
    assert len(looks) == 4
    assert looks[1:] == [3, 3, 3]  # the record, and again with the last sign of life


def test_once_who_was_in_the_way_has_ended_the_job_is_recorded_with_what_that_one_wrote(
    store: MemoryStore,
):
    write(store, mode=OVERWRITE)
    recorded(store)
    looks: list[StoreCall] = []

    def end(call: StoreCall) -> None:
        if call.operation == "list_status" and call.paths[0] == JOB.temporary:
            looks.append(call)
            if len(looks) == 3:
                run_commit(store, OTHER_JOB)

    with at_work(OTHER_RUN):
        _, record = decide(WrappedStore(store, before=end), OVERWRITE, conflict_wait_seconds=60.0)
    assert [file.path for file in record.replaced] == ["/table/job_2-a", "/table/p=1/job_2-b"]


def test_of_two_that_have_declared_the_one_that_replaces_data_stays(store: MemoryStore):
    declared(store, "/table")
    write(store, mode=OVERWRITE)
    phases: list[Phase | None] = []
    with at_work(OTHER_RUN), pytest.raises(CommitConflictError):
        decide(WrappedStore(store, before=watch_waiting(store, phases)), OVERWRITE)
    assert set(phases) == {Phase.DECLARED}
    assert phase_of(store) is Phase.OPEN


def test_who_appends_withdraws_while_it_waits_for_one_that_replaces_data(store: MemoryStore):
    other = declared(store, "/table", ("/table",))
    write(store)
    withdrawn: list[Phase | None] = []

    def note(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[-1].startswith("open"):
            withdrawn.append(phase_of(store))
            if len(withdrawn) == 2:
                withdraw(context(store, job=OTHER_JOB), other)

    with at_work(OTHER_RUN):
        decide(WrappedStore(store, after=note), conflict_wait_seconds=60.0)
    assert withdrawn == [Phase.OPEN] * 2
    assert phase_of(store) is Phase.RECORDED
    assert phase_of(store, OTHER_JOB) is Phase.OPEN


def watch_waiting(store: MemoryStore, phases: list[Phase | None]) -> Callable[[StoreCall], None]:
    """A hook: note the job's state at each look at the others."""

    def hook(call: StoreCall) -> None:
        if call.operation == "list_status" and call.paths[0] == JOB.temporary:
            phases.append(phase_of(store))

    return hook


def test_a_job_that_was_set_up_where_files_are_replaced_is_seen_wherever_it_is(store: MemoryStore):
    inside = new_job_attempt("/table/p=1", "job_7", 0)
    recorded(store, job=inside)
    write(store, mode=OVERWRITE)
    with pytest.raises(CommitConflictError, match="job_7"):
        decide(store, OVERWRITE, unfinished="refuse")
    above = new_job_attempt("/", "job_8", 0)
    run_commit(store, inside)
    write_job(store, above, {0: {"table/p=1/x": b"1"}})
    decide(store, job=above, run=OTHER_RUN)
    with pytest.raises(CommitConflictError, match="job_8"):
        decide(store, OVERWRITE, unfinished="refuse")
    assert phase_of(store) is Phase.OPEN


# Somebody else decides, or a task commits


def test_of_two_committers_of_one_job_one_records_it_and_the_other_sees_that(store: MemoryStore):
    write(store)
    quicker: list[Seen] = []
    hook = do_at("advance", lambda: quicker.append(decide(store, run=OTHER_RUN)[0]), "declared")
    with pytest.raises(StateChangedError) as caught:
        decide(WrappedStore(store, before=hook))
    assert [caught.value.now] == quicker == [read_state(store, JOB)]


def test_an_attempt_that_another_has_overtaken_is_open_again(store: MemoryStore):
    write(store)
    hook = do_at("advance", lambda: write(store, new_job_attempt("/table", "job_1", 1)), "declared")
    with pytest.raises(CommitRecordExistsError, match="newer"):
        decide(WrappedStore(store, before=hook))
    assert phase_of(store) is Phase.OPEN


# Failures and crashes


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_after_a_failure_of_any_request_the_job_is_open_or_recorded(kind: str, mode: ConflictMode):
    base = KINDS[kind]()
    put_file(base, "/table/old", b"0")
    write(base, mode=mode)
    for call in calls_of(base.copy(), lambda one: decide(one, mode)):
        store = base.copy()

        def fail(now: StoreCall, number: int = call.number) -> None:
            if now.number == number:
                raise TimeoutError(5, "failed", now.paths[0])

        with suppress(OSError, RayCommitterError):
            decide(WrappedStore(store, before=fail), mode)
        assert phase_of(store) in (Phase.OPEN, Phase.RECORDED), call
        if phase_of(store) in UNDECIDED:
            decide(store, mode)
        assert phase_of(store) is Phase.RECORDED


def test_a_task_that_saves_its_manifest_again_while_it_is_read_is_committed_once(store: MemoryStore):
    """A speculative attempt: what was listed is another file by the time it is read."""
    write(store)
    late = set_up_attempt(store, JOB, 0, 1)
    write_attempt(store, JOB, late, {"late": b"of the second attempt"})
    again = do_at("read", lambda: commit_attempt(store, JOB, 0, late), "-manifest.json")
    run_commit(WrappedStore(store, before=again), JOB)
    assert visible_files(store, "/table") == {"late": b"of the second attempt", "p=1/job_1-b": b"2"}
