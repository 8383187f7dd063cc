"""How far a job attempt is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import list_temporary
from ray_committer.job_files.manifests import estimate_files
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore, WrappedStore
from tests.stages.support import JOB, a_file, at, bring_to, requests, set_up


def left(*names: str) -> MemoryStore:
    """A job attempt without a state: what Hadoop's own committer sets up, or a clean-up leaves."""
    store = MemoryStore()
    for name in names:
        store.mkdirs(f"{JOB.directory}/{name}")
    return store


NOWHERE = JobStatus(JOB, exists=False)


@pytest.mark.parametrize(
    ("new", "state"),
    [
        (MemoryStore, NOWHERE),
        (lambda: a_file("/table"), NOWHERE),
        (lambda: a_file(JOB.directory), NOWHERE),
        (lambda: left("tasks"), JobStatus(JOB)),
        (lambda: left("manifests"), JobStatus(JOB, has_manifests=True)),
        (lambda: left("frozen", "tasks"), JobStatus(JOB, has_manifests=True)),
    ],
)
def test_without_a_state_one_listing_shows_how_far_an_attempt_is(
    new: Callable[[], MemoryStore], state: JobStatus
):
    assert read_job(new(), JOB) == state
    assert state.is_remnant is not state.has_manifests
    cost = requests(new(), lambda one: read_job(one, JOB))
    assert cost == Counter(read_state=1, list_status=1)


@pytest.mark.parametrize("phase", list(Phase))
def test_the_state_of_an_attempt_says_how_far_it_is_in_one_request(phase: Phase):
    store = set_up(JOB)
    bring_to(store, phase)
    found = read_job(store, JOB)
    assert found == JobStatus(JOB, seen=read_state(store, JOB), has_manifests=True)
    assert (found.phase, found.is_remnant) == (phase, False)
    assert found.is_decided is (phase not in (Phase.OPEN, Phase.DECLARED))
    assert requests(store, lambda one: read_job(one, JOB)) == Counter(read_state=1)


def test_an_attempt_that_cannot_be_listed_is_not_taken_for_none():
    store = left("manifests", "tasks")
    denied = WrappedStore(store, before=at("list_status", PermissionError("denied")))
    for look in (
        lambda: read_job(denied, JOB),
        lambda: list_temporary(denied, "/table"),
        lambda: estimate_files(denied, JOB),
    ):
        with pytest.raises(PermissionError):
            look()
