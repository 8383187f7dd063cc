"""Two jobs that must not be committed at once: which of them stays, which waits, and for how long."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    CommitterBusyError,
    LinkedPathError,
)
from ray_committer.job_files.job_state import Seen, StateChangedError, advance
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.owners import Life, at_work, nobody, owner_of
from ray_committer.job_files.read_job import read_other
from ray_committer.job_files.set_up_here import new_declaration
from ray_committer.options import CommitOptions, Unfinished
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import Claim, Declaration, Owner, decode_claim, encode
from ray_committer.protocol.state import JobState, Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import (
    Patience,
    declare_job,
    give_way,
    look_around,
    wait_for_declaration,
    withdraw,
)
from ray_committer.stages.other_jobs.end_others import ROUNDS, End
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from tests.stages.support import (
    ALIVE,
    DEAD,
    JOB,
    NOW,
    OTHER_JOB,
    at,
    bring_to,
    closed,
    context,
    died,
    do_at,
    record_of,
    requests,
    seen_in,
    state_of,
    with_job,
)

SOON = CommitOptions(conflict_wait_seconds=0.1)
NEVER = CommitOptions(conflict_wait_seconds=0.0)
APPEND = Claim(["/table"])
REPLACE = Claim(["/table"], ["/table"])


def with_jobs(*jobs: JobAttempt) -> MemoryStore:
    store = MemoryStore()
    for job in jobs or (JOB, OTHER_JOB):
        setup_job(store, job)
    return store


def beside(
    phase: Phase, claim: Claim, *, owner: Owner = ALIVE, job: JobAttempt = OTHER_JOB
) -> MemoryStore:
    """An open job, and another in a phase with this claim."""
    return with_job(store=with_jobs(JOB), job=job, phase=phase, owner=owner, claim=claim)


def declare(store, claim: Claim, options: CommitOptions = SOON) -> tuple[JobContext, Seen]:
    found = context(store, options)
    return found, declare_job(found, seen_in(store), claim, "run")


def around(store, claim: Claim, below: tuple[str, ...] = ()) -> list[JobAttempt]:
    return [other.job for other in look_around(context(store), claim, below)]


def test_a_declaration_says_what_the_job_writes_and_who_commits_it():
    store = with_jobs()
    _, declared = declare(store, REPLACE)
    assert declared == seen_in(store)
    assert declared.phase is Phase.DECLARED
    path = JOB.content(declared.state.nonce)
    found = decode_claim(store.read(path), path)
    assert (found.nonce, found.claim) == (declared.state.nonce, REPLACE)
    assert (found.job_id, found.job_attempt) == (JOB.job_id, JOB.number)
    assert (found.created_milliseconds, found.owner) == (NOW, owner_of("run"))


def test_a_declaration_costs_one_write_and_one_change_of_the_state():
    store = with_jobs()
    seen = seen_in(store)

    def run(one) -> None:
        declare_job(context(one), seen, APPEND, "run")

    assert requests(store, run) == Counter(write=1, advance=1)


def test_each_declaration_is_another_and_what_it_says_is_there_before_it():
    store = with_jobs()
    nonces = set()
    for _ in range(3):
        found, declared = declare(store, APPEND)
        nonces.add(declared.state.nonce)
        withdraw(found, declared)
    assert len(nonces) == 3
    died(store, lambda one: declare(one, APPEND), "write")
    assert state_of(store).phase is Phase.OPEN


# What was prepared while the tasks ran

LONG_AGO = NOW - 3_600_000


def prepared(claim: Claim = APPEND, run_id: str | None = None) -> tuple[MemoryStore, Declaration]:
    """A job whose declaration was written long ago."""
    store = with_jobs(JOB)
    declaration = new_declaration(JOB, claim, "run", run_id, LONG_AGO)
    store.write(JOB.content(declaration.nonce), encode(declaration))
    return store, declaration


def test_what_is_prepared_is_declared_by_one_request():
    store, declaration = prepared()
    first = seen_in(store)
    within = Claim(["/table/p=1"])
    declare_it = lambda one: declare_job(context(one), first, within, "run", prepared=declaration)  # noqa: E731
    assert requests(store, declare_it) == Counter(advance=1)
    assert state_of(store).nonce == declaration.nonce
    assert state_of(store) == JobState(Phase.DECLARED, first.state.stamp, declaration.nonce, since=NOW)


@pytest.mark.parametrize(
    ("claim", "run_id"), [(Claim(["/other"]), None), (REPLACE, None), (APPEND, "nightly")]
)
def test_what_is_prepared_and_does_not_say_all_is_not_declared(claim: Claim, run_id: str | None):
    store, declaration = prepared()
    found, first = context(store), seen_in(store)
    declared = declare_job(found, first, claim, "run", run_id, prepared=declaration)
    assert declared.state.nonce != declaration.nonce
    path = JOB.content(declared.state.nonce)
    assert decode_claim(store.read(path), path).claim == claim


def test_a_committer_whose_declaration_was_prepared_long_ago_is_alive():
    store, declaration = prepared()
    with at_work("run"):
        declare_job(context(store), seen_in(store), APPEND, "run", prepared=declaration)
        status = read_other(store, JOB, NOW + 1_000)
    assert status is not None
    assert status.is_alive
    assert status.declaration.created_milliseconds == NOW


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.ABORTED])
def test_of_a_job_that_somebody_else_has_changed_nothing_is_declared(phase: Phase):
    store = with_jobs()
    seen = seen_in(store)
    now = bring_to(store, phase)
    with pytest.raises(StateChangedError) as caught:
        declare_job(context(store), seen, APPEND, "run")
    assert caught.value.now == now


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("owner", [ALIVE, DEAD])
def test_only_a_job_between_its_declaration_and_its_commit_is_in_the_way(phase: Phase, owner: Owner):
    store = beside(phase, APPEND, owner=owner)
    in_the_way = phase in (Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.UNDOING)
    assert around(store, REPLACE) == ([OTHER_JOB] if in_the_way else [])


@pytest.mark.parametrize(
    ("claim", "other", "in_the_way"),
    [
        (APPEND, APPEND, False),
        (REPLACE, APPEND, True),
        (APPEND, REPLACE, True),
        (REPLACE, REPLACE, True),
        (Claim(["/table/p=1"], ["/table/p=1"]), Claim(["/table/p=2"]), False),
        (Claim(["/table/p=1"]), Claim(["/table/p=1"], ["/table/p=1"]), True),
    ],
)
def test_appends_are_in_nobodys_way_and_replacements_where_they_overlap(
    claim: Claim, other: Claim, in_the_way: bool
):
    assert bool(around(beside(Phase.RECORDED, other), claim)) is in_the_way


@pytest.mark.parametrize("destination", ["/", "/warehouse", "/warehouse/table"])
def test_a_job_that_was_set_up_above_is_seen(destination: str):
    own = new_job_attempt("/warehouse/table", "job_1", 0)
    job = new_job_attempt(destination, "job_2", 0)
    store = with_job(store=with_jobs(own), job=job, phase=Phase.RECORDED, claim=Claim([destination]))
    claim = Claim(["/warehouse/table"], ["/warehouse/table"])
    found = look_around(context(store, job=own), claim)
    assert [other.job for other in found] == [job]


def test_a_job_that_was_set_up_below_is_seen_where_the_look_is_told_of_it():
    job = new_job_attempt("/table/p=1", "job_2", 0)
    store = beside(Phase.RECORDED, Claim(["/table/p=1"]), job=job)
    assert around(store, REPLACE) == []
    assert around(store, REPLACE, ("/table/p=1",)) == [job]


def test_other_attempts_of_the_job_are_not_taken_for_other_jobs():
    store = with_jobs(JOB)
    second = new_job_attempt("/table", JOB.job_id, 1)
    store.mkdirs(second.manifests)
    bring_to(store, Phase.DECLARED, job=second)
    assert around(store, REPLACE) == []


def test_directories_above_that_may_not_be_read_are_named_once_and_do_not_stop_the_job():
    store = beside(Phase.RECORDED, APPEND)
    denied = at("list_status", PermissionError(13, "denied", "/_temporary"), "/_temporary")

    def elsewhere(call) -> None:
        if call.paths[0] == "/_temporary":
            denied(call)

    found = context(WrappedStore(store, before=elsewhere))
    assert [other.job for other in look_around(found, REPLACE)] == [OTHER_JOB]
    (notice,) = found.journal.notices
    assert notice.startswith("memory://test/_temporary: no permission to read it")
    assert "/table" in notice


def test_a_job_above_that_may_not_be_read_hides_none_beside_it():
    job, *closed = [new_job_attempt("/", name, 0) for name in ("job_2", "job_0", "job_3")]
    store = with_jobs(JOB, job, *closed)
    record = record_of(job_id=job.job_id, owner=ALIVE, claim=Claim(["/table"]))
    bring_to(store, Phase.RECORDED, job=job, record=record)

    def denied(call: StoreCall) -> None:
        if call.paths[0] in {closed[0].job_directory, closed[1].state}:
            raise PermissionError(13, "denied", call.paths[0])

    found = context(WrappedStore(store, before=denied))
    assert [other.job for other in look_around(found, REPLACE)] == [job]
    assert look_around(found, REPLACE)
    assert sorted(notice.split(": ")[0] for notice in found.journal.notices) == [
        f"memory://test{closed[0].job_directory}",
        f"memory://test{closed[1].state}",
    ]


@pytest.mark.parametrize("listed", ["/table/_temporary", "/table/_temporary/job_3"])
def test_what_is_denied_at_the_own_destination_hides_no_other_job(listed: str):
    store = beside(Phase.RECORDED, APPEND)
    store.mkdirs("/table/_temporary/job_3/00")

    def denied(call: StoreCall) -> None:
        if call == StoreCall("list_status", (listed,)):
            raise PermissionError(13, "denied", listed)

    with pytest.raises(PermissionError, match=listed):
        around(WrappedStore(store, before=denied), REPLACE)


def test_what_is_denied_at_the_second_look_hides_no_job_of_the_first():
    job = new_job_attempt("/", "job_2", 0)
    store = beside(Phase.RECORDED, Claim(["/table"]), job=job)
    store.mkdirs("/_temporary/job_3")  # perhaps a job that is put back just now: it is looked at again
    times = Counter[str]()

    def deny(call: StoreCall) -> None:
        times[call.paths[0]] += call.operation == "list_status"
        if call == StoreCall("list_status", ("/_temporary",)) and times["/_temporary"] > 1:
            raise PermissionError(13, "denied", "/_temporary")

    found = context(WrappedStore(store, before=deny))
    assert [other.job for other in look_around(found, REPLACE)] == [job]
    assert times["/_temporary"] > 1
    (notice,) = found.journal.notices
    assert notice.startswith("memory://test/_temporary: no permission to read it")


def test_the_state_of_another_job_behind_a_link_is_not_read(tmp_path: Path):
    store = LocalStore(StoreSpec("file"))
    destination = str(tmp_path / "t")
    own, other = (new_job_attempt(destination, name, 0) for name in ("job_1", "job_2"))
    for job in (own, other):
        setup_job(store, job)
    Path(other.state).rename(tmp_path / "outside")
    Path(other.state).symlink_to(tmp_path / "outside")
    with pytest.raises(LinkedPathError, match=other.state):
        look_around(context(store, job=own), Claim([destination]))


@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError])
def test_a_look_that_fails_is_an_error_and_not_a_free_way(error: type[OSError]):
    store = beside(Phase.RECORDED, APPEND)
    with pytest.raises(error):
        around(WrappedStore(store, before=at("list_status", error("simulated"))), REPLACE)


def test_a_look_costs_one_listing_a_directory_and_three_requests_a_job():
    store = beside(Phase.RECORDED, APPEND)
    found = requests(store, lambda one: around(one, REPLACE))
    assert found == Counter(list_status=2 + 1, read_state=1, read=1)


def meet(store, claim: Claim, options: CommitOptions = SOON) -> tuple[JobContext, Seen, list[JobStatus]]:
    found, declared = declare(store, claim, options)
    others = look_around(found, claim)
    assert others
    return found, declared, others


def wait_a_little(store, claim: Claim, options: CommitOptions = SOON) -> Seen:
    found, declared, others = meet(store, claim, options)
    return give_way(found, declared, claim, others, Patience.of(found))


def test_of_two_that_have_declared_the_one_that_replaces_data_stays():
    assert wait_a_little(beside(Phase.DECLARED, APPEND), REPLACE).phase is Phase.DECLARED
    assert wait_a_little(beside(Phase.DECLARED, REPLACE), APPEND).phase is Phase.OPEN


def test_of_two_that_replace_data_the_lower_nonce_stays_and_never_both_or_none():
    kept = set()
    for _ in range(30):
        store = with_jobs()
        contexts = {job: context(store, SOON, job=job) for job in (JOB, OTHER_JOB)}
        declared = {
            job: declare_job(contexts[job], seen_in(store, job), REPLACE, "run") for job in contexts
        }
        alive = {}
        for job, other in ((JOB, OTHER_JOB), (OTHER_JOB, JOB)):
            (met,) = look_around(contexts[job], REPLACE)
            assert met.job == other
            alive[job] = replace(met, life=Life.ALIVE)
        after = {
            job: give_way(
                contexts[job], declared[job], REPLACE, [alive[job]], Patience.of(contexts[job])
            )
            for job in contexts
        }
        stays = [job for job, seen in after.items() if seen.phase is Phase.DECLARED]
        assert stays == [min(declared, key=lambda job: declared[job].state.nonce)]
        kept |= set(stays)
    assert kept == {JOB, OTHER_JOB}


@pytest.mark.parametrize(
    ("phase", "claim"),
    [
        *((phase, REPLACE) for phase in (Phase.RECORDED, Phase.SEALED, Phase.UNDOING)),
        *((phase, APPEND) for phase in (Phase.RECORDED, Phase.UNDOING)),
    ],
)
def test_for_a_job_that_is_recorded_and_alive_the_declaration_stays(phase: Phase, claim: Claim):
    store = beside(phase, REPLACE)
    after = wait_a_little(store, claim)
    assert after == seen_in(store)
    assert after.phase is Phase.DECLARED


@pytest.mark.parametrize("phase", [Phase.RECORDED, Phase.SEALED, Phase.UNDOING])
def test_a_recorded_job_whose_committer_is_dead_is_a_conflict_at_once(phase: Phase):
    store = beside(phase, Claim(["/table/p=1", "/table/p=2"]), owner=DEAD)
    long = CommitOptions(conflict_wait_seconds=600, unfinished="refuse")
    with pytest.raises(CommitConflictError) as caught:
        wait_a_little(store, REPLACE, long)
    text = str(caught.value)
    command = "abort" if phase is Phase.UNDOING else "commit"
    assert f"ray-committer {command} memory://test/table --job-id job_2" in text
    assert "/table/p=1, /table/p=2" in text
    assert "; then run the same command. Nothing was changed: " in text
    assert caught.value.exit_code == 4
    assert state_of(store).phase is Phase.OPEN


def test_a_declaration_of_the_dead_is_withdrawn_and_the_own_stays():
    store = beside(Phase.DECLARED, REPLACE, owner=DEAD)
    assert wait_a_little(store, APPEND).phase is Phase.DECLARED
    assert state_of(store, OTHER_JOB).phase is Phase.OPEN
    assert around(store, APPEND) == []


def test_a_dead_declaration_of_another_user_is_a_conflict_that_names_it():
    store = beside(Phase.DECLARED, REPLACE, owner=DEAD)
    found, declared, others = meet(store, APPEND)

    def deny(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[0].startswith(OTHER_JOB.directory):
            raise PermissionError(13, "denied", call.paths[0])

    mine = replace(found, store=WrappedStore(store, before=deny))
    with pytest.raises(CommitConflictError, match=r"ray-committer commit .* --job-id job_2") as caught:
        give_way(mine, declared, APPEND, others, Patience.of(found))
    assert caught.value.exit_code == 4
    assert state_of(store).phase is Phase.OPEN
    assert state_of(store, OTHER_JOB).phase is Phase.DECLARED


def test_a_heartbeat_that_may_not_be_read_is_no_sign_of_life():
    store = beside(Phase.RECORDED, REPLACE, owner=DEAD)
    store.write(OTHER_JOB.heartbeat, b"another user's")
    (other,) = look_around(context(closed(store, OTHER_JOB.heartbeat)), APPEND)
    assert not other.is_alive


def test_a_dead_declaration_that_is_recorded_just_then_is_not_withdrawn():
    store = beside(Phase.DECLARED, REPLACE, owner=DEAD)
    found, declared, others = meet(store, APPEND)
    recorded = advance(store, OTHER_JOB, seen_in(store, OTHER_JOB), Phase.RECORDED)
    after = give_way(found, declared, APPEND, others, Patience.of(found))
    assert after == declared
    assert seen_in(store, OTHER_JOB) == recorded


@pytest.mark.parametrize("options", [NEVER, CommitOptions()], ids=["without patience", "with"])
def test_a_recorded_job_that_is_removed_just_then_is_in_nobodys_way(options: CommitOptions):
    store = beside(Phase.RECORDED, REPLACE)
    found, declared, others = meet(store, REPLACE, options)
    store.delete_directory(OTHER_JOB.directory)
    assert give_way(found, declared, REPLACE, others, Patience.of(found)) == declared
    assert seen_in(store) == declared


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.RECORDED])
def test_without_patience_a_job_that_is_at_work_is_a_conflict_and_the_job_is_open(phase: Phase):
    store = beside(phase, REPLACE)
    with pytest.raises(CommitConflictError, match=r"\(waited 0 s\)") as caught:
        wait_a_little(store, REPLACE, NEVER)
    assert caught.value.exit_code == 4
    assert state_of(store).phase is Phase.OPEN


def test_of_many_directories_some_are_named_and_all_are_counted():
    many = Claim([f"/table/p={number}" for number in range(9)])
    with pytest.raises(CommitConflictError, match=r"/table/p=0, /table/p=1, /table/p=2 and 6 more"):
        wait_a_little(beside(Phase.RECORDED, many, owner=DEAD), REPLACE)


def test_a_declaration_that_was_taken_back_by_somebody_is_known_when_it_gives_way():
    store = beside(Phase.DECLARED, REPLACE)
    found, declared, others = meet(store, APPEND)
    now = advance(store, JOB, declared, Phase.OPEN)
    with pytest.raises(StateChangedError) as caught:
        give_way(found, declared, APPEND, others, Patience.of(found))
    assert caught.value.now == now


@pytest.mark.parametrize(
    ("unfinished", "roots", "after"),
    [
        (None, ("/table",), Phase.ABORTED),
        ("supersede", (), Phase.ABORTED),
        ("finish", (), Phase.COMMITTED),
        (None, ("/table/p=1",), None),
        ("refuse", ("/table",), None),
    ],
)
def test_a_recorded_job_whose_committer_is_dead_is_ended_as_the_options_say(
    unfinished: Unfinished | None, roots: tuple[str, ...], after: Phase | None
):
    store = beside(Phase.RECORDED, APPEND, owner=DEAD)
    found, declared, others = meet(store, REPLACE, CommitOptions(unfinished=unfinished))
    ended: list[Phase] = []

    def end(other: JobStatus, how: End) -> list[str]:
        assert state_of(store).phase is Phase.OPEN, "nothing is held while another job is ended"
        phases = {End.UNDO: (Phase.UNDOING, Phase.ABORTED), End.FINISH: (Phase.COMMITTED,)}[how]
        seen = other.seen
        for phase in phases:
            seen = advance(store, other.job, seen, phase)
            ended.append(phase)
        return ["a notice of that"]

    give = partial(give_way, replace(found, end_other=end), declared, REPLACE, others)
    if after is None:
        with pytest.raises(CommitConflictError):
            give(Patience.of(found), roots=roots)
        assert ended == []
    else:
        assert give(Patience.of(found), roots=roots).phase is Phase.OPEN
        assert ended[-1] is after
        assert around(store, REPLACE) == []
        text = f"memory://test{OTHER_JOB.directory}: job {OTHER_JOB.job_id} was "
        assert [notice.startswith(text) for notice in found.journal.notices] == [True, False]
    assert state_of(store).phase is Phase.OPEN


def test_jobs_that_are_not_ended_are_waited_for_and_then_a_conflict():
    store = beside(Phase.RECORDED, APPEND, owner=DEAD)
    tries = []

    def end(other: JobStatus, how: End) -> list[str]:
        tries.append(how)
        raise CommitterBusyError("another process is at work on it")

    found, declared, others = meet(store, REPLACE, NEVER)
    busy, patience = replace(found, end_other=end), Patience.of(found)
    for _ in range(ROUNDS):
        seen = give_way(busy, declared, REPLACE, others, patience, roots=("/table",))
        declared = declare_job(busy, seen, REPLACE, "run")
    with pytest.raises(CommitConflictError, match="job_2"):
        give_way(busy, declared, REPLACE, others, patience, roots=("/table",))
    assert len(tries) == ROUNDS


def test_a_commit_that_is_cancelled_waits_no_longer():
    found = context(MemoryStore(), CommitOptions(conflict_wait_seconds=600), cancelled=True)
    with pytest.raises(CommitCancelledError):
        Patience.of(found).wait()


def own_declaration(owner: Owner) -> MemoryStore:
    """A job that another committer of it has declared."""
    return with_job(phase=Phase.DECLARED, owner=owner)


def wait_for(store, seen: Seen, options: CommitOptions = SOON) -> Seen:
    found = context(store, options)
    return wait_for_declaration(found, seen, Patience.of(found))


def test_a_declaration_of_a_dead_committer_of_the_same_job_is_withdrawn():
    store = own_declaration(DEAD)
    assert wait_for(store, seen_in(store)) == seen_in(store)
    assert state_of(store).phase is Phase.OPEN


def test_a_committer_of_the_same_job_that_is_at_work_is_waited_for_and_then_busy():
    store = own_declaration(ALIVE)
    with pytest.raises(CommitterBusyError, match="process 1 on elsewhere is committing") as caught:
        wait_for(store, seen_in(store))
    assert caught.value.exit_code == 4
    assert state_of(store).phase is Phase.DECLARED


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.RECORDED, Phase.ABORTED])
def test_what_became_of_the_declaration_of_another_committer_is_told(phase: Phase):
    store = own_declaration(ALIVE)
    seen = seen_in(store)
    change = do_at("read", lambda: changed.append(advance(store, JOB, seen, phase, "nonce")))
    changed: list[Seen] = []
    if phase is Phase.RECORDED:
        store.write(JOB.content("nonce"), store.read(JOB.content(seen.state.nonce)))
    with pytest.raises(StateChangedError) as caught:
        wait_for(WrappedStore(store, after=change), seen)
    assert [caught.value.now] == changed


def test_a_job_that_is_gone_meanwhile_is_told_apart():
    store = own_declaration(ALIVE)
    seen = seen_in(store)
    end = do_at("read", lambda: store.delete_directory(JOB.directory))
    with pytest.raises(StateChangedError) as caught:
        wait_for(WrappedStore(store, after=end), seen)
    assert caught.value.now is None


@pytest.mark.parametrize("destination", ["/", "/table/p=1"])
def test_an_append_beside_a_commit_of_another_destination_that_stopped_is_in_nobodys_way(
    destination: str,
):
    job = new_job_attempt(destination, "job_2", 0)
    assert around(beside(Phase.RECORDED, APPEND, owner=DEAD, job=job), APPEND, ("/table/p=1",)) == []


@pytest.mark.parametrize(
    ("phase", "owner", "writes", "is_in_the_way"),
    [
        (Phase.RECORDED, DEAD, "/table", True),
        (Phase.SEALED, DEAD, "/table/p=1/q=1", True),
        (Phase.UNDOING, DEAD, "/table", True),
        (Phase.RECORDED, DEAD, "/table/p=2", False),
        (Phase.RECORDED, ALIVE, "/table", False),
        (Phase.RECORDED, nobody("run"), "/table", False),
        (Phase.COMMITTED, DEAD, "/table", False),
        (Phase.DECLARED, DEAD, "/table", False),
    ],
)
def test_an_append_is_beside_others_unless_their_process_has_died_in_the_middle(
    phase: Phase, owner: Owner, writes: str, is_in_the_way: bool
):
    store = beside(phase, Claim([writes]), owner=owner)
    assert bool(around(store, Claim(["/table/p=1"]))) is is_in_the_way
