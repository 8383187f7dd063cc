"""The commit of a job by the process that set it up looks for nothing that this process knows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest

import ray_committer
from ray_committer import CommitOptions, CommittedTask, ConflictMode
from ray_committer.errors import CommitAbortedError, JobGoneError, RayCommitterError
from ray_committer.job_files import owners, set_up_here
from ray_committer.job_files.job_state import Seen, advance
from ray_committer.job_files.set_up_here import SetUpHere, is_random, remember, take
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.manifest import digest
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent
from ray_committer.protocol.record import Claim, decode_claim
from ray_committer.protocol.state import Phase, parse_token
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt
from tests.opening import opening
from tests.stages.set_up import set_up_with_id
from tests.stages.support import KINDS, MakesParentsOfWrites, each_of, phase_of, seen_in

store = each_of()
URL = "s3://bucket/here"
"""Any URL: the store is that of the test."""
JOB = new_job_attempt("/here", "5f0c1e7a-7b1f-4c35-9a51-0d8f3c2b6a10", 0)
"""At a destination of no other test of this process."""
FILES = {0: {"a": b"1"}}


def written(store: MemoryStore) -> CommitOptions:
    """Write a job in this process; return the options of a driver that knows its tasks."""
    write_job(store, JOB, FILES)
    (manifest,) = store.list_status(JOB.manifests)
    known = CommittedTask(
        manifest.name, digest(store.read(manifest.path)), f"attempt_{JOB.job_id}_m_000000_0"
    )
    return CommitOptions(expected_tasks=1, committed_tasks=(known,), job_attempt=0)


def run_tasks(store: StoreOperations) -> tuple[CommittedTask, ...]:
    attempt = set_up_attempt(store, JOB, 0, 0)
    write_attempt(store, JOB, attempt, FILES[0])
    return (commit_attempt(store, JOB, 0, attempt, stamp=seen_in(store, JOB).state.stamp),)


def commit(store: StoreOperations, options: CommitOptions) -> Outcome:
    with opening(store):
        report = ray_committer.commit_job(URL, JOB.job_id, executor="inline", options=options)
    return report.outcome


def remembered(
    authority: str = "here", *, number: int = 0, destination: str = "/remembered"
) -> tuple[StoreOperations, JobAttempt, Seen]:
    store = MemoryStore(authority=authority)
    job = new_job_attempt(destination, "5f0c1e7a-7b1f-4c35-9a51-0d8f3c2b6a10", number)
    setup_job(store, job, is_new_id=True)
    return store, job, seen_in(store, job)


def test_nothing_is_looked_for_before_the_manifests(store: MemoryStore):
    options, calls = written(store), list[StoreCall]()
    assert commit(WrappedStore(store, before=calls.append), options) is Outcome.COMMITTED
    assert (calls[0].operation, parent(calls[0].paths[0])) == ("read", JOB.manifests)
    assert visible_files(store, JOB.destination) == {"a": b"1"}


def test_what_is_known_is_used_once():
    store, job, first = remembered()
    assert take(store, job.destination, job.job_id, None) == (job, SetUpHere(first))
    assert take(store, job.destination, job.job_id, None) is None


def test_a_job_whose_id_its_caller_has_chosen_is_looked_for_since_another_can_have_that_id():
    store = MemoryStore()
    given = str(uuid4())
    with opening(store):
        ray_committer.setup_job(URL, given)
        drawn = ray_committer.setup_job(URL)
    assert take(store, JOB.destination, drawn, 0) is not None
    assert take(store, JOB.destination, given, 0) is None


def test_of_the_ids_of_spark_those_that_are_random_are_drawn():
    assert is_random(str(uuid4()))
    assert not is_random(str(uuid5(NAMESPACE_URL, "nightly")))
    assert not is_random("nightly")


def test_a_job_that_takes_the_id_of_another_while_that_is_cleaned_up_is_put_back():
    store, again = MemoryStore(), list[str]()

    def set_up_again(call: StoreCall) -> None:
        if call.operation == "move_directory" and ".gone-" in call.paths[1] and not again:
            again.append(call.paths[1])
            run_commit(store, JOB)
            with opening(store):
                ray_committer.setup_job(URL, JOB.job_id)
            put_file(store, join(JOB.tasks, "late", "b"), b"2")

    with opening(store):
        ray_committer.setup_job(URL, JOB.job_id)
    results = run_tasks(store)
    options = CommitOptions(expected_tasks=1, committed_tasks=results, job_attempt=0)
    commit(WrappedStore(store, before=set_up_again), options)
    assert again
    assert phase_of(store, JOB) is Phase.OPEN
    assert store.read(join(JOB.tasks, "late", "b")) == b"2"


def test_another_store_destination_job_or_attempt_is_not_known():
    store, job, first = remembered()
    other = MemoryStore(authority="elsewhere")
    assert take(other, job.destination, job.job_id, 0) is None
    assert take(store, "/another", job.job_id, 0) is None
    assert take(store, job.destination, "job_2", 0) is None
    assert take(store, job.destination, None, 0) is None
    assert take(store, job.destination, job.job_id, 1) is None
    assert take(store, job.destination, job.job_id, 0) == (job, SetUpHere(first))


def set_up(store: StoreOperations, options: CommitOptions) -> SetUpHere:
    with opening(store):
        set_up_with_id(URL, JOB.job_id, options)
    known = take(store, JOB.destination, JOB.job_id, 0)
    assert known is not None
    return known[1]


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_an_append_is_declared_beforehand_where_a_file_declares_it(kind: str):
    store = KINDS[kind]()
    known = set_up(store, CommitOptions())
    if kind == "flat":
        assert known.prepared is None
        return
    assert known.prepared is not None
    path = JOB.content(known.prepared.nonce)
    assert decode_claim(store.read(path), path) == known.prepared
    assert known.prepared.claim == Claim(["/here"])


@pytest.mark.parametrize("mode", [mode for mode in ConflictMode if mode is not ConflictMode.APPEND])
def test_what_replaces_data_or_wants_none_is_not_declared_beforehand(mode: ConflictMode):
    assert set_up(MemoryStore(), CommitOptions(mode=mode)).prepared is None


def test_what_is_declared_beforehand_is_declared_once():
    """If a task has saved its manifest meanwhile, the commit loads and declares again."""
    store = MemoryStore()
    with opening(store):
        set_up_with_id(URL, JOB.job_id)
    own = seen_in(store, JOB).state.stamp
    names: list[str] = []

    def run_task(task: int) -> None:
        attempt = set_up_attempt(store, JOB, task, 0)
        write_attempt(store, JOB, attempt, {f"f{task}": b"x"})
        commit_attempt(store, JOB, task, attempt, stamp=own)

    def save(call: StoreCall) -> None:
        if call.operation == "advance":
            names.extend(status.name for status in store.list_status(JOB.state))
        if call.operation == "move_directory" and call.paths[0] == JOB.manifests:
            run_task(1)

    run_task(0)
    assert commit(WrappedStore(store, before=save), CommitOptions(assume_complete=True)) is (
        Outcome.COMMITTED
    )
    assert visible_files(store, JOB.destination) == {"f0": b"x", "f1": b"x"}
    declared = {parse_token(name, "/").nonce for name in names if name.startswith("declared")}
    assert len(declared) == 2


def test_of_several_attempts_one_must_be_named():
    store, job, first = remembered()
    again = new_job_attempt(job.destination, job.job_id, 1)
    remember(store, again, first)
    assert take(store, job.destination, job.job_id, None) is None
    assert take(store, job.destination, job.job_id, 1) == (again, SetUpHere(first))


def test_a_process_that_was_forked_knows_nothing(monkeypatch: pytest.MonkeyPatch):
    store, job, _ = remembered()
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    assert take(store, job.destination, job.job_id, 0) is None


def test_the_first_of_many_jobs_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(set_up_here, "MOST_JOBS", 2)
    jobs = [remembered(destination=f"/remembered/{number}") for number in range(3)]
    known = [take(store, job.destination, job.job_id, 0) is not None for store, job, _ in jobs]
    assert known == [False, True, True]


# What others have done meanwhile


def test_a_job_whose_state_has_changed_is_read_again(store: MemoryStore):
    options = written(store)
    declared = advance(store, JOB, seen_in(store, JOB), Phase.DECLARED)
    advance(store, JOB, declared, Phase.OPEN)
    assert commit(store, options) is Outcome.COMMITTED
    assert visible_files(store, JOB.destination) == {"a": b"1"}


def test_a_job_that_another_process_has_aborted_is_gone(store: MemoryStore):
    options = written(store)
    run_abort(store, JOB)
    with pytest.raises(JobGoneError):
        commit(store, options)


def test_a_job_that_another_process_aborts_meanwhile_is_aborted(store: MemoryStore):
    options = written(store)
    advance(store, JOB, seen_in(store, JOB), Phase.ABORTED)
    with pytest.raises(CommitAbortedError):
        commit(store, options)
    assert visible_files(store, JOB.destination) == {}


def test_a_job_that_was_set_up_again_under_its_id_is_left_alone(store: MemoryStore):
    options = written(store)
    run_abort(store, JOB)
    mine = take(store, JOB.destination, JOB.job_id, 0)
    assert mine is not None
    write_job(store, JOB, {0: {"b": b"2"}})
    remember(store, mine[0], mine[1].first)
    with pytest.raises(RayCommitterError):
        commit(store, options)
    assert phase_of(store, JOB) is Phase.OPEN
    assert visible_files(store, JOB.destination) == {}


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
@pytest.mark.parametrize("kind", [*KINDS.values(), MakesParentsOfWrites])
def test_a_job_that_another_process_ends_before_any_request_leaves_nothing_behind(
    kind: Callable[[], MemoryStore], mode: ConflictMode
):
    for number in itertools.count(1):
        store, ended = kind(), list[StoreCall]()
        put_file(store, join(JOB.destination, "old"), b"0")
        (result,) = write_job(store, JOB, FILES, mode=mode)
        known = CommitOptions(expected_tasks=1, committed_tasks=(result,), job_attempt=0, mode=mode)

        def end(
            call: StoreCall,
            *,
            store: MemoryStore = store,
            ended: list[StoreCall] = ended,
            number: int = number,
        ) -> None:
            if call.number == number:
                ended.append(call)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(owners, "DEAD_SECONDS", -1.0)
                    run_commit(store, JOB, CommitOptions(expected_tasks=1, mode=mode))

        outcome = commit(WrappedStore(store, before=end), known)
        if not ended:
            break
        assert outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        assert visible_files(store, JOB.destination)["a"] == b"1"
        assert store.get_status(JOB.temporary) is None, ended
    assert number > 20
