"""How far a job is: by two listings and one read, or by every manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.stages.survey_jobs import Survey, survey_exactly, survey_job
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    WrappedStore,
    run_abort,
    run_commit,
    write_job,
)
from tests.stages.support import JOB, at, do_at, manifest_path, requests

TASKS = {n: {f"f{n}-{file}": b"x" * 10 for file in range(4)} for n in range(5)}


def running(tasks=TASKS) -> MemoryStore:
    store = MemoryStore()
    write_job(store, JOB, tasks)
    return store


def stopped(operation: str, end: str) -> MemoryStore:
    """A job whose commit died before this request."""
    store = running()
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=at(operation, SimulatedCrash(), end)), JOB)
    return store


def aborting() -> MemoryStore:
    store = running()
    with pytest.raises(SimulatedCrash):
        run_abort(WrappedStore(store, before=at("delete_directory", SimulatedCrash())), JOB)
    return store


def recorded() -> MemoryStore:
    return stopped("rename", "f2-0")


def committed() -> MemoryStore:
    return stopped("write", "_SUCCESS.tmp")


def exactly(store) -> Survey:
    return survey_exactly(store, JOB, threads=1)


@pytest.mark.parametrize(
    ("new", "state", "manifests", "files", "left"),
    [
        (MemoryStore, "running", 0, 0, None),
        (lambda: running({}), "running", 0, 0, None),
        (lambda: running({0: {}}), "running", 1, 0, None),
        (running, "running", 5, 20, None),
        (recorded, "recorded", 5, 20, None),
        (committed, "committed", 5, 20, 0),
        (aborting, "aborting", 0, 0, None),
    ],
)
def test_the_state_of_a_job_is_what_its_directory_shows(
    new: Callable[[], MemoryStore], state: str, manifests: int, files: int, left: int | None
):
    found = survey_job(new(), JOB)
    assert (found.state, found.manifests, found.files, found.left) == (state, manifests, files, left)
    assert found.problem is None


@pytest.mark.parametrize(("new", "left"), [(running, None), (recorded, 12), (committed, 0)])
def test_an_exact_look_counts_what_is_still_to_be_moved(
    new: Callable[[], MemoryStore], left: int | None
):
    found = exactly(new())
    assert (found.files, found.bytes, found.left, found.is_estimate) == (20, 200, left, False)


@pytest.mark.parametrize(
    ("new", "cheap", "exact"),
    [
        (running, Counter(list_status=2, read=1), Counter(list_status=1, read=5)),
        (recorded, Counter(list_status=2, read=1), Counter(read=1 + 5, list_files=5)),
        (committed, Counter(list_status=2, read=1), Counter()),
    ],
)
def test_a_look_costs_three_requests_and_an_exact_one_as_many_as_manifests(new, cheap, exact):
    assert requests(new(), lambda one: survey_job(one, JOB)) == cheap
    assert requests(new(), exactly) == cheap + exact


@pytest.mark.parametrize("look", [lambda store: survey_job(store, JOB), exactly])
@pytest.mark.parametrize("path", [manifest_path(0), JOB.commit_record])
def test_a_bad_file_is_a_problem_of_its_job_and_no_error(look, path: str):
    store = recorded() if path == JOB.commit_record else running({0: {"a": b"x"}})
    store.write(path, b"not json")
    found = look(store)
    assert found.problem is not None
    assert found.problem.startswith(f"{path}: ")


@pytest.mark.parametrize("look", [lambda store: survey_job(store, JOB), exactly])
@pytest.mark.parametrize("operation", ["list_status", "read"])
@pytest.mark.parametrize("new", [running, recorded])
def test_a_store_that_fails_is_an_error_and_not_a_job_without_files(look, operation: str, new):
    with pytest.raises(PermissionError):
        look(WrappedStore(new(), before=at(operation, PermissionError("denied"))))


@pytest.mark.parametrize(
    ("look", "new", "state"),
    [
        (lambda store: survey_job(store, JOB), running, "running"),
        (lambda store: survey_job(store, JOB), recorded, "recorded"),
        (exactly, running, "running"),
        (exactly, recorded, "recorded"),
    ],
)
def test_a_job_that_ends_during_the_look_is_not_a_problem(
    look, new: Callable[[], MemoryStore], state: str
):
    store = new()
    end = do_at("read", lambda: store.delete_directory(JOB.directory))
    found = look(WrappedStore(store, before=end))
    assert (found.state, found.problem) == (state, None)


def test_the_newest_change_is_that_of_the_record_or_a_manifest():
    store = running()
    times = [one.modified_milliseconds for one in store.list_status(JOB.manifests)]
    assert survey_job(store, JOB).newest_milliseconds == max(time for time in times if time)
    assert survey_job(MemoryStore(), JOB).newest_milliseconds is None
