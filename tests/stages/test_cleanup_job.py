"""Clean-up removes the job's own directory and nothing else, and finishes what it was cut off in."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import LeaseLostError, StoreUnavailableError
from ray_committer.events import Event, Notice
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.others import find_gone
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.state import Phase
from ray_committer.stages.cleanup_job import FEW_DIRECTORIES, cleanup_job, finish_cleanup
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, fail_at, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import (
    JOB,
    OTHER_JOB,
    WHEN,
    at,
    bring_to,
    context,
    each_crash,
    record_of,
    requests,
    seen_in,
    staged_name,
)


def test_clean_up_leaves_other_jobs_alone(store, write_job, dest: Path, tree):
    first = write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "y"}}, job_id="job_2")
    run_commit(store, first)
    assert not Path(first.job_directory).exists()
    assert ray_committer.commit_job(str(dest)).job_id == "job_2"
    assert tree() == {"a": "x", "b": "y"}
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize(
    ("operation", "outcome"),
    [("move_directory", Outcome.COMMITTED), ("delete_directory", Outcome.ALREADY_COMMITTED)],
)
def test_a_failed_clean_up_does_not_fail_the_committed_job(
    store, write_job, dest: Path, tree, operation: str, outcome: Outcome
):
    job = write_job({0: {"a": "x"}})

    def fail(call: StoreCall) -> None:
        if call.operation == operation and ".gone-" in call.paths[-1]:
            raise OSError("simulated")

    report = run_commit(WrappedStore(store, before=fail), job)
    assert report.outcome is Outcome.COMMITTED
    assert any("not cleaned up" in notice for notice in report.notices)
    assert ray_committer.commit_job(str(dest), "job_1").outcome is outcome
    assert not (dest / "_temporary").exists()
    assert tree() == {"a": "x"}


def attempts(number: int) -> CommitRecord:
    """A record of so many tasks."""
    return record_of(tasks=number)


def committed(
    tasks: int = 2, *, beside_another_job: bool = False, store: MemoryStore | None = None
) -> MemoryStore:
    """A committed job, with files that its tasks left behind."""
    store = store or MemoryStore()
    write_job(store, JOB, {task: {"left": b"x"} for task in range(tasks)})
    bring_to(store, Phase.COMMITTED)
    if beside_another_job:
        write_job(store, OTHER_JOB, {0: {"b": b"y"}})
    return store


class DeletesTrees(MemoryStore):
    """A store that deletes a directory by one request, unless it is on a `network` file system."""

    def __init__(self, network: str | None) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, deletes_trees=True)
        self._network = network

    def network_file_system(self, _path: str) -> str | None:
        return self._network

    def revalidate(self, path: str) -> None:
        """Listings show what is there."""


def clean(store, seen: Seen, tasks: int = 2, on_event: Callable[[Event], None] = lambda _: None) -> bool:
    return cleanup_job(context(store, emit=on_event), seen, attempts(tasks))


def clean_again(store, seen: Seen, tasks: int = 2) -> None:
    """What the next run of the commit does: it cleans up, or deletes what was taken away."""
    if read_state(store, JOB) is None:
        finish_cleanup(context(store))
    else:
        assert clean(store, seen, tasks) is True


FEW_REQUESTS = Counter(move_directory=1, read_state=1, delete_directory=1, remove_empty_directory=2)


@pytest.mark.parametrize(
    ("tasks", "more"), [(0, 0), (1, 0), (FEW_DIRECTORIES, 0), (FEW_DIRECTORIES + 1, FEW_DIRECTORIES + 1)]
)
def test_few_attempts_go_with_their_parent_and_many_one_by_one(tasks: int, more: int):
    store = committed(tasks)
    seen = seen_in(store)
    found = requests(store, lambda one: clean(one, seen, tasks))
    assert found == FEW_REQUESTS + Counter(delete_directory=more, list_status=3 * (more > 0))
    assert store.files() == {}
    assert store.list_status("/table") == []


@pytest.mark.parametrize(
    ("partitions", "more"),
    [(1, 0), (FEW_DIRECTORIES - 4, 0), (FEW_DIRECTORIES - 3, FEW_DIRECTORIES + 1)],
)
def test_many_directories_that_tasks_shared_go_one_by_one(partitions: int, more: int):
    """Beside them are those of the two attempts, and two for files of the destination itself."""
    store, left = MemoryStore(), {task: [staged_name("left", task)] for task in (0, 1)}
    left[0] += [staged_name(f"p={number}/left") for number in range(partitions)]
    write_job(store, JOB, {task: dict.fromkeys(names, b"x") for task, names in left.items()})
    bring_to(store, Phase.COMMITTED)
    seen, record = seen_in(store), record_of(tasks=FEW_DIRECTORIES + 1)
    found = requests(store, lambda one: cleanup_job(context(one), seen, record))
    assert found == FEW_REQUESTS + Counter(delete_directory=more, list_status=4)
    assert store.list_status("/table") == []


@pytest.mark.parametrize(("network", "more"), [(None, 0), ("nfs4", FEW_DIRECTORIES + 1)])
def test_where_one_request_deletes_all_many_attempts_go_with_their_parent(
    network: str | None, more: int
):
    store = committed(FEW_DIRECTORIES + 1, store=DeletesTrees(network))
    seen = seen_in(store)
    found = requests(store, lambda one: clean(one, seen, FEW_DIRECTORIES + 1))
    listed = Counter(list_status=3, revalidate=1) if more else Counter()
    assert found == FEW_REQUESTS + Counter(delete_directory=more) + listed
    assert store.list_status("/table") == []


def test_where_nothing_is_left_there_is_nothing_to_do():
    store = committed()
    seen = seen_in(store)
    assert clean(MemoryStore(), seen) is True
    assert [clean(store, seen), clean(store, seen)] == [True, True]


@pytest.mark.parametrize("tasks", [2, FEW_DIRECTORIES + 1])
def test_what_failed_attempts_left_goes_as_well(tasks: int):
    store = committed(tasks)
    put_file(store, f"{JOB.tasks}/attempt_job_1_m_000000_7/left", b"x")
    clean(store, seen_in(store), tasks)
    assert store.files() == {}


@pytest.mark.parametrize("tasks", [2, FEW_DIRECTORIES + 1])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_deletion_that_fails_is_reported_and_the_next_run_finishes(tasks: int, when: str, error):
    start = committed(tasks)
    seen = seen_in(start)
    total = requests(start.copy(), lambda one: clean(one, seen, tasks)).total()
    for number in range(1, total + 1):
        store, events = start.copy(), list[Event]()
        faulty = WrappedStore(store, **{when: fail_at(number, error)})
        assert clean(faulty, seen, tasks, events.append) is False
        (notice,) = [event for event in events if isinstance(event, Notice)]
        assert f"{JOB.directory}: the job is committed but was not cleaned up" in notice.text
        clean_again(store, seen, tasks)
        assert store.list_status("/table") == []


def test_a_failed_clean_up_asks_a_store_that_does_not_answer_each_thing_once():
    """The guard would ask again for five minutes, after which the limit of a test is over."""
    store, asked = committed(), list[StoreCall]()
    seen, failed = seen_in(store), list[StoreCall]()

    def silent(call: StoreCall) -> None:
        if call.operation == "delete_directory" and not failed:
            failed.append(call)
            raise OSError(errno.EIO, "no answer", call.paths[0])
        if not failed:
            return
        asked.append(call)
        raise StoreUnavailableError(call.paths[0], "no answer")

    notices: list[Event] = []
    assert clean(WrappedStore(store, before=silent), seen, on_event=notices.append) is False
    assert asked
    assert max(Counter((call.operation, call.paths) for call in asked).values()) == 1
    assert any(isinstance(notice, Notice) for notice in notices)


def test_a_worker_that_can_make_no_more_requests_is_reported_like_any_failure():
    store = committed()
    lost = WrappedStore(store, before=at("delete_directory", LeaseLostError("the lease is over")))
    seen = seen_in(store)
    assert clean(lost, seen) is False
    assert find_gone(store, JOB, seen.state.stamp) == seen.state


@pytest.mark.parametrize("tasks", [2, FEW_DIRECTORIES + 1])
def test_nothing_is_deleted_where_a_job_could_be_set_up_again(tasks: int):
    calls: list[StoreCall] = []
    store = committed(tasks)
    assert clean(WrappedStore(store, before=calls.append), seen_in(store), tasks) is True
    deleted = [call.paths[0] for call in calls if call.operation.startswith("delete")]
    assert deleted
    assert not [path for path in deleted if is_inside(path, JOB.job_directory)]


def test_a_job_that_was_set_up_again_under_the_same_id_keeps_every_file():
    seen, store = seen_in(committed()), MemoryStore()
    write_job(store, JOB, {0: {"b": b"y"}})
    before = store.files()
    assert clean(store, seen) is True
    assert store.files() == before


@pytest.mark.parametrize("tasks", [2, FEW_DIRECTORIES + 1])
def test_where_no_directory_can_be_taken_away_the_state_goes_last_of_all(tasks: int):
    store = committed(tasks, store=MemoryStore(real_directories=False))
    seen = seen_in(store)
    denied = at("delete_listed", PermissionError("denied"))
    assert clean(WrappedStore(store, before=denied), seen, tasks) is False
    assert seen_in(store) == seen
    assert clean(store, seen, tasks) is True
    assert store.files() == {}


def test_after_a_crash_anywhere_the_next_run_leaves_nothing_of_the_job():
    start = committed(beside_another_job=True)
    seen, other = seen_in(start), start.files(OTHER_JOB.directory)
    for store in each_crash(start.copy, lambda one: clean(one, seen)):
        clean_again(store, seen)
        assert store.files() == other
        assert store.get_status(JOB.job_directory) is None


def test_a_foreign_file_in_the_directory_of_all_jobs_is_left_there(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    (dest / "_temporary" / "notes").write_text("of somebody else")
    run_commit(store, job)
    assert [path.name for path in (dest / "_temporary").iterdir()] == ["notes"]
