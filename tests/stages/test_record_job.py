"""A job is decided once nobody is in its way; whatever is found wrong, it is open as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from ray_committer.errors import CommitConflictError, CommitRecordExistsError, RayCommitterError
from ray_committer.job_files.find_job import read_attempt_state
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.job_files.owners import at_work
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import (
    Claim,
    CommitRecord,
    ConflictMode,
    Declaration,
    decode_claim,
    decode_record,
)
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.declare_job import Patience, declare_job, withdraw
from ray_committer.stages.load_manifests import ManifestsChangedError, load_manifests
from ray_committer.stages.preflight import preflight
from ray_committer.stages.record_job import MOST_WRITES, record_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt
from tests.stages.support import JOB, NOW, OTHER_JOB, WHEN, context, do_at

KINDS: dict[str, Callable[[], MemoryStore]] = {
    "directories": MemoryStore,
    "flat": lambda: MemoryStore(real_directories=False),
}
APPEND, OVERWRITE, ERROR = ConflictMode.APPEND, ConflictMode.OVERWRITE, ConflictMode.ERROR
RUN, OTHER_RUN = "run", "another run"
WAIT = 0.03


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return KINDS[request.param]()


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
    seen = read_state(store, job)
    assert seen is not None

    def load() -> object:
        found.executor.directories.forget()
        return load_manifests(found, None, (job.destination,), stamp=seen.state.stamp)

    loaded = load_manifests(found, None, (job.destination,), stamp=seen.state.stamp)
    preflight(found, loaded)
    with at_work(run):
        return record_job(
            found,
            seen,
            loaded,
            run,
            load=load,
            replaced_roots=replaced_roots,
            allowed_roots=(),
            patience=Patience.of(found),
        )


def phase_of(store: StoreOperations, job: JobAttempt = JOB) -> Phase | None:
    seen = read_state(store, job)
    return seen.phase if seen else None


def declared(
    store: StoreOperations, writes: str, excludes: tuple[str, ...] = (), job: JobAttempt = OTHER_JOB
) -> Seen:
    """Another job of which a run has declared what it writes."""
    write(store, job)
    seen = read_state(store, job)
    assert seen is not None
    return declare_job(context(store, job=job), seen, Claim([writes], [*excludes]), OTHER_RUN)


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
    path = JOB.content(seen.state.record or "")
    assert decode_record(store.read(path), path) == record
    assert (record.job_id, record.job_attempt, record.created_milliseconds) == ("job_1", 0, NOW)
    assert (len(record.manifests), record.files, record.bytes) == (2, 2, 2)
    assert (record.owner.run, record.nonce) == (RUN, seen.state.record)


def test_the_record_is_made_from_the_very_declaration_that_has_looked(store: MemoryStore):
    write(store)
    found: list[Declaration] = []

    def note(call: StoreCall) -> None:
        if call.operation == "advance" and ".declared" in f".{call.paths[-1]}":
            seen = read_state(store, JOB)
            assert seen is not None
            path = JOB.content(seen.state.nonce)
            found.append(decode_claim(seen.content.encode() or store.read(path), path))

    _, record = decide(WrappedStore(store, after=note))
    assert [one.claim for one in found] == [record.claim]
    assert [one.owner for one in found] == [record.owner]


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


@pytest.mark.parametrize(("limit", "is_first"), [(3, True), (2, False)])
def test_of_many_manifests_the_record_is_written_after_the_others_have_been_looked_at(
    limit: int, is_first: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ray_committer.stages.record_job.MANY_MANIFESTS", limit)
    store = MemoryStore()
    write(store)
    calls: list[StoreCall] = []
    _, record = decide(WrappedStore(store, before=calls.append))
    looked = next(n for n, one in enumerate(calls) if one.paths == (JOB.temporary,))
    written = next(n for n, one in enumerate(calls) if one.paths == (JOB.content(record.nonce),))
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
    [(OVERWRITE, APPEND), (APPEND, OVERWRITE), (OVERWRITE, OVERWRITE), (ERROR, APPEND)],
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
    store = MemoryStore()
    write_job(store, JOB, {0: {"p=1/a": b"x"}}, mode=OVERWRITE)
    recorded(store)
    with pytest.raises(CommitConflictError, match="job_2"):
        decide(store, OVERWRITE, replaced_roots=roots)
    assert phase_of(store, OTHER_JOB) is Phase.RECORDED


def test_appends_are_in_nobodys_way(store: MemoryStore):
    write(store)
    declared(store, "/table", job=new_job_attempt("/table", "job_3", 0))
    recorded(store)
    with at_work(OTHER_RUN):
        assert decide(store)[0].phase is Phase.RECORDED


@pytest.mark.parametrize(
    ("writes", "excludes", "is_in_the_way"),
    [
        ("/table/p=1", (), True),
        ("/table", (), True),
        ("/table/p=2", (), False),
        ("/table/p=2", ("/table/p=2",), False),
        ("/table/p=10", ("/table/p=10",), False),
        ("/table/p=1/q=1", ("/table/p=1/q=1",), True),
    ],
)
def test_only_jobs_whose_directories_overlap_are_in_each_others_way(
    writes: str, excludes: tuple[str, ...], is_in_the_way: bool
):
    store = MemoryStore()
    declared(store, writes, excludes)
    write_job(store, JOB, {0: {"p=1/a": b"x"}}, mode=OVERWRITE)
    with at_work(OTHER_RUN):
        if is_in_the_way:
            with pytest.raises(CommitConflictError):
                decide(store, OVERWRITE, replaced_roots=("/table/p=1",))
            assert phase_of(store) is Phase.OPEN
        else:
            decide(store, OVERWRITE, replaced_roots=("/table/p=1",))


def test_who_is_alive_is_waited_for_and_then_named_with_what_it_writes(store: MemoryStore):
    write(store, mode=OVERWRITE)
    recorded(store)
    with (
        at_work(OTHER_RUN),
        pytest.raises(CommitConflictError, match=rf"writes to /table.*waited {WAIT:g} s"),
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
            seen = read_state(store, JOB)
            assert seen is not None
            advance(store, JOB, seen, Phase.OPEN)

    found = context(WrappedStore(store, before=note), options(OVERWRITE))
    there = read_attempt_state(store, JOB)
    with at_work(OTHER_RUN), pytest.raises(CommitConflictError, match=rf"waited {WAIT:g} s"):
        commit_job(found, there)
    assert len(looks) == 4
    assert looks[1:] == [1, 1, 1]


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


def test_a_declaration_of_the_dead_is_withdrawn_and_hinders_nobody(store: MemoryStore):
    declared(store, "/table", ("/table",))
    write(store)
    assert decide(store)[0].phase is Phase.RECORDED
    assert phase_of(store, OTHER_JOB) is Phase.OPEN


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


def test_several_overwrites_at_once_end_with_the_whole_of_one(store: MemoryStore):
    jobs = [new_job_attempt("/table", f"job_{number}", 0) for number in range(3)]
    put_file(store, "/table/old", b"0")
    for job in jobs:
        write(store, job, OVERWRITE)
    failures: list[Exception] = []

    def commit(job: JobAttempt) -> None:
        try:
            run_commit(store, job, options(OVERWRITE, conflict_wait_seconds=60.0))
        except RayCommitterError as e:
            failures.append(e)

    threads = [threading.Thread(target=commit, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    wholes = [{f"{job.job_id}-a": b"1", f"p=1/{job.job_id}-b": b"2"} for job in jobs]
    assert visible_files(store, "/table") in wholes


# Somebody else decides, or a task commits


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
def test_a_job_that_is_aborted_meanwhile_is_not_recorded(store: MemoryStore, mode: ConflictMode):
    write(store, mode=mode)
    before_last = do_at_advance_to("recorded", lambda: run_abort(store, JOB))
    with pytest.raises(StateChangedError) as caught:
        decide(WrappedStore(store, before=before_last), mode)
    assert caught.value.now is None
    assert store.list_files(JOB.state) == []


def do_at_advance_to(phase: str, action: Callable[[], object]) -> Callable[[StoreCall], None]:
    def hook(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[-1].startswith(phase):
            action()

    return hook


def test_a_declaration_that_somebody_withdrew_is_not_recorded(store: MemoryStore):
    write(store)

    def withdraw() -> None:
        seen = read_state(store, JOB)
        assert seen is not None
        advance(store, JOB, seen, Phase.OPEN)

    with pytest.raises(StateChangedError) as caught:
        decide(WrappedStore(store, before=do_at_advance_to("recorded", withdraw)))
    assert caught.value.now == read_state(store, JOB)
    assert phase_of(store) is Phase.OPEN


def test_of_two_committers_of_one_job_one_records_it_and_the_other_sees_that(store: MemoryStore):
    write(store)
    quicker: list[Seen] = []
    hook = do_at_advance_to("declared", lambda: quicker.append(decide(store, run=OTHER_RUN)[0]))
    with pytest.raises(StateChangedError) as caught:
        decide(WrappedStore(store, before=hook))
    assert [caught.value.now] == quicker == [read_state(store, JOB)]


def test_an_attempt_that_another_has_overtaken_is_open_again(store: MemoryStore):
    write(store)
    hook = do_at_advance_to("declared", lambda: write(store, new_job_attempt("/table", "job_1", 1)))
    with pytest.raises(CommitRecordExistsError, match="newer"):
        decide(WrappedStore(store, before=hook))
    assert phase_of(store) is Phase.OPEN


def test_a_manifest_that_is_saved_after_loading_is_not_left_out(store: MemoryStore):
    write(store)
    attempt = set_up_attempt(store, JOB, 2, 0)
    write_attempt(store, JOB, attempt, {"late": b"3"})

    def save() -> None:
        with suppress(RayCommitterError):
            commit_attempt(store, JOB, 2, attempt)

    first = "move_directory" if store.real_directories else "advance"
    with pytest.raises(ManifestsChangedError):
        decide(WrappedStore(store, before=do_at(first, save)))
    assert phase_of(store) is Phase.OPEN
    assert len(decide(store)[1].manifests) == 3


# Failures and crashes


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_failure_of_any_request_the_job_is_open_or_recorded(kind: str, mode: ConflictMode):
    base = KINDS[kind]()
    put_file(base, "/table/old", b"0")
    write(base, mode=mode)
    calls: list[StoreCall] = []
    decide(WrappedStore(base.copy(), before=calls.append), mode)
    for call in calls:
        store = base.copy()

        def fail(now: StoreCall, number: int = call.number) -> None:
            if now.number == number:
                raise TimeoutError(5, "failed", now.paths[0])

        with suppress(OSError, RayCommitterError):
            decide(WrappedStore(store, before=fail), mode)
        assert phase_of(store) in (Phase.OPEN, Phase.RECORDED), call
        decide_if_open(store, mode)
        assert phase_of(store) is Phase.RECORDED


def decide_if_open(store: StoreOperations, mode: ConflictMode) -> None:
    if phase_of(store) in UNDECIDED:
        decide(store, mode)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_anywhere_the_next_run_commits_the_job(kind: str, mode: ConflictMode, when: str):
    base = KINDS[kind]()
    write(base, mode=mode)
    calls: list[StoreCall] = []
    decide(WrappedStore(base.copy(), before=calls.append), mode)
    for call in calls:
        store = base.copy()
        with pytest.raises(SimulatedCrash):
            decide(WrappedStore(store, **{when: crash_at(call.number)}), mode)
        run_commit(store, JOB, options(mode))
        assert visible_files(store, "/table") == {"job_1-a": b"1", "p=1/job_1-b": b"2"}


def test_a_task_that_saves_its_manifest_again_while_it_is_read_is_committed_once(store: MemoryStore):
    """A speculative attempt: what was listed is another file by the time it is read."""
    write(store)
    late = set_up_attempt(store, JOB, 0, 1)
    write_attempt(store, JOB, late, {"late": b"of the second attempt"})
    again = do_at("read", lambda: commit_attempt(store, JOB, 0, late), "-manifest.json")
    run_commit(WrappedStore(store, before=again), JOB)
    assert visible_files(store, "/table") == {"late": b"of the second attempt", "p=1/job_1-b": b"2"}
