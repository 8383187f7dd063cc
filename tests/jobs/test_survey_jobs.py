"""How far a job is: by two listings and one read, or by every manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.job_files.job_state import adopt_state
from ray_committer.jobs.survey_jobs import Survey, survey_exactly, survey_job
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import Owner
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore, WrappedStore, run_abort, run_commit
from ray_committer.testing.harness import put_file
from tests.stages.support import (
    ALIVE,
    DEAD,
    JOB,
    NOW,
    at,
    died,
    do_at,
    requests,
    staged_name,
    state_of,
    with_job,
)

TASKS = {n: {f"f{n}-{file}": b"x" * 10 for file in range(4)} for n in range(5)}


STAGED = {n: {staged_name(f"p=1/f{n}-{file}", n): b"x" * 10 for file in range(4)} for n in range(5)}


def running(tasks=TASKS) -> MemoryStore:
    return with_job(tasks)


def stopped(operation: str, end: str) -> MemoryStore:
    """A job whose commit died before this request."""
    return died(running(), lambda one: run_commit(one, JOB), operation, end)


def aborting() -> MemoryStore:
    return died(running(), lambda one: run_abort(one, JOB), "move_directory")


def remnant() -> MemoryStore:
    """What a late task has left, and an abort of that which was killed."""
    store = MemoryStore()
    store.mkdirs(JOB.tasks)
    adopt_state(store, JOB, Phase.ABORTED)
    return store


def in_phase(phase: Phase, owner: Owner = DEAD) -> MemoryStore:
    return with_job(TASKS, phase=phase, owner=owner)


def recorded() -> MemoryStore:
    store = stopped("rename", "f2-0")
    assert state_of(store).phase is Phase.RECORDED
    return store


def recorded_staged() -> MemoryStore:
    moved = staged_name("f2-0", 2)
    store = with_job(STAGED)
    for name in {parent(name) for files in STAGED.values() for name in files}:
        put_file(store, f"/table/{name}/old", b"")  # so that the files go there one by one
    return died(store, lambda one: run_commit(one, JOB), "rename", moved)


def committed() -> MemoryStore:
    store = stopped("replace", "_SUCCESS")
    assert state_of(store).phase is Phase.COMMITTED
    return store


def cheaply(store) -> Survey:
    return survey_job(store, JOB, NOW)


def exactly(store) -> Survey:
    return survey_exactly(store, JOB, NOW, threads=1)


looks = pytest.mark.parametrize("look", [cheaply, exactly])


@pytest.mark.parametrize(
    ("new", "state", "manifests", "files", "left"),
    [
        (MemoryStore, "running", 0, 0, None),
        (lambda: running({}), "running", 0, 0, None),
        (lambda: running({0: {}}), "running", 1, 0, None),
        (running, "running", 5, 20, None),
        (lambda: in_phase(Phase.DECLARED), "running", 5, 20, None),
        (recorded, "recorded", 5, 20, None),
        (committed, "committed", 5, 20, 0),
        (aborting, "aborting", 0, 0, None),
        (remnant, "running", 0, 0, None),
    ],
)
def test_the_state_of_a_job_is_what_its_directory_shows(
    new: Callable[[], MemoryStore], state: str, manifests: int, files: int, left: int | None
):
    found = cheaply(new())
    assert (found.state, found.manifests, found.files, found.left) == (state, manifests, files, left)
    assert found.problem is None


@pytest.mark.parametrize(
    ("new", "left"), [(running, None), (recorded, 12), (recorded_staged, 12), (committed, 0)]
)
def test_an_exact_look_counts_what_is_still_to_be_moved(
    new: Callable[[], MemoryStore], left: int | None
):
    found = exactly(new())
    assert (found.files, found.bytes, found.left, found.is_estimate) == (20, 200, left, False)


@pytest.mark.parametrize(
    ("new", "cheap", "exact"),
    [
        (
            running,
            Counter(read_state=1, list_status=3, read=1),
            Counter(list_status=1, read=5),
        ),
        (
            recorded,
            Counter(read_state=3, list_status=4, read=3),
            Counter(read_state=1, read=2, list_status=6, get_status=1),
        ),
        (committed, Counter(read_state=1, list_status=2, read=1), Counter()),
    ],
)
def test_a_look_costs_ten_requests_at_most_and_an_exact_one_as_many_as_tasks(new, cheap, exact):
    assert requests(new(), cheaply) == cheap
    assert requests(new(), exactly) == cheap + exact


@looks
@pytest.mark.parametrize("operation", ["list_status", "read"])
@pytest.mark.parametrize("new", [running, recorded])
def test_a_store_that_fails_is_an_error_and_not_a_job_without_files(look, operation: str, new):
    with pytest.raises(TimeoutError):
        look(WrappedStore(new(), before=at(operation, TimeoutError("no answer"))))


@looks
@pytest.mark.parametrize(("new", "state"), [(running, "running"), (recorded, "recorded")])
def test_a_job_that_ends_during_the_look_is_not_a_problem(
    look, new: Callable[[], MemoryStore], state: str
):
    store = new()
    end = do_at("read", lambda: store.delete_directory(JOB.directory))
    found = look(WrappedStore(store, before=end))
    assert (found.state, found.problem) == (state, None)


@pytest.mark.parametrize("owner", [ALIVE, DEAD])
@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.UNDOING])
def test_who_is_at_work_on_a_commit_is_told(phase: Phase, owner: Owner):
    found = survey_job(in_phase(phase, owner), JOB, NOW).begun
    assert found is not None
    assert (found.owner, found.is_alive) == (owner, owner is ALIVE)
    assert survey_job(in_phase(Phase.OPEN), JOB, NOW).begun is None


def test_the_newest_change_is_that_of_the_record_or_a_manifest():
    store = running()
    times = [one.modified_milliseconds for one in store.list_status(JOB.manifests)]
    assert survey_job(store, JOB, NOW).newest_milliseconds == max(time for time in times if time)
    assert survey_job(MemoryStore(), JOB, NOW).newest_milliseconds is None
