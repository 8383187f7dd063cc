"""What a commit on Google Cloud Storage proves and costs."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import CommitConflictError
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.state import new_nonce
from ray_committer.stages.cleanup_job import FEW_DIRECTORIES
from ray_committer.stages.old_data.mode_roots import MOST_WRITES
from ray_committer.stores.gcs.store import BATCHES_AT_ONCE, DELETES_AT_ONCE, GcsStore
from ray_committer.testing import (
    StoreCall,
    WrappedStore,
    harness,
    run_commit,
    visible_files,
)
from ray_committer.testing.harness import commit_attempt, load_ahead, set_up_attempt, write_attempt
from tests.integration.gcs.jobs import write_hadoop_job
from tests.integration.store_jobs import tasks_of, write_job
from tests.servers.gcs import BATCH, GcsServer, decode_calls
from tests.servers.proxy import Request
from tests.stages.support import staged_name

pytestmark = pytest.mark.xdist_group("gcs")

WRITERS = pytest.mark.parametrize("write", [write_job, write_hadoop_job])


KINDS = {
    "move": ("POST", r"/storage/v1/b/[^/]+/o/[^/?]+/moveTo/o/"),
    "read": ("GET", r"/storage/v1/b/[^/]+/o/[^/?]+\?.*alt=media"),
    "look": ("GET", r"/storage/v1/b/[^/]+/o/[^/?]+\?(?!.*alt=media)"),
    "list": ("GET", r"/storage/v1/b/[^/]+/o\?"),
    "write": ("POST", r"/upload/storage/v1/b/[^/]+/o\?"),
    "delete": ("DELETE", r"/storage/v1/b/[^/]+/o/[^/?]+"),
    "layout": ("GET", r"/storage/v1/b/[^/]+/storageLayout"),
}


def kind(request: Request) -> str:
    return next(
        name
        for name, (method, path) in KINDS.items()
        if request.method == method and re.match(path, request.path)
    )


def calls(request: Request) -> list[Request]:
    """A request, or those that it is a batch of."""
    return decode_calls(request) if request.path == BATCH else [request]


@WRITERS
@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (5, 40), (FEW_DIRECTORIES + 1, 66)])
def test_a_commit_without_faults_keeps_its_budget(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt, write, tasks: int, files: int
):
    write(store, job, tasks_of(files, tasks=tasks))
    server.proxy.requests.clear()
    report = ray_committer.commit_job(
        f"gs://{bucket}{job.destination}",
        job.job_id,
        executor="threads",
        options=CommitOptions(threads=4, job_attempt=0, expected_tasks=tasks),
        storage_options=server.storage_options,
    )
    assert report.moved == files
    found = Counter(kind(call) for request in server.proxy.requests for call in calls(request))
    print(tasks, files, found)
    is_hadoops = write is write_hadoop_job  # without state at first, and its attempts leave no marks
    above = 2  # the root and /warehouse, where other jobs may be set up
    assert found["move"] == files + 1  # _SUCCESS
    # At an earlier _SUCCESS; without a state, at what is in the job's directory; never at a file.
    assert found["look"] == 1 + 2 * is_hadoops
    # Manifests; the state, and once more before anything is deleted. Without: one manifest, whether it
    # has a stamp, whether the destination is a table with a log, and the state once more.
    assert found["read"] == tasks + 2 + 3 * is_hadoops
    # A pack, the record, _SUCCESS; three changes of state: one holds the declaration.
    assert found["write"] == 3 + 3 + is_hadoops
    # All files of tasks twice, by pages: for their versions, and before the record. No directory of the
    # output: all are new. Before it: the attempts of the job, other attempts twice, manifests twice,
    # other jobs at the destination. In it: other attempts, four directories to delete and four that are
    # empty afterwards. Without a state: what is in the attempt twice, the attempt and the manifests once
    # more. Without an earlier _SUCCESS: whether that is a folder.
    assert found["list"] == 2 + above + 6 + 9 + 4 * is_hadoops + 1
    # The pack, manifests and the marks of attempts; the mark of one directory, or of two; the record,
    # the state.
    objects = 1 + (tasks + 2 if is_hadoops else 2 * tasks + 1)
    assert found["delete"] == objects + 2
    batches = sum(request.path == BATCH for request in server.proxy.requests)
    assert bool(batches) == (objects > DELETES_AT_ONCE)
    assert batches <= BATCHES_AT_ONCE
    assert found["layout"] == 1


def test_each_file_that_belonged_to_a_state_costs_one_request_in_the_clean_up(
    server: GcsServer, store: GcsStore, job: JobAttempt
):
    write_job(store, job, {0: {"a": b"1"}})
    withdrawn = {job.content(new_nonce()) for _ in range(20)}
    for path in withdrawn:
        store.write(path, b"{}")
    server.proxy.requests.clear()
    assert run_commit(store, job).outcome is Outcome.COMMITTED
    of_states = [request for request in server.proxy.requests if "%2Fstate%2F" in request.path]
    found = Counter(map(kind, of_states))
    assert found["delete"] == len(withdrawn) + 2  # the record, the state
    assert found["list"] == 2
    assert store.get_status(job.temporary) is None


@pytest.mark.parametrize("place", ["p=0", "p=0/q=1"])
@pytest.mark.parametrize("partitions", [2, MOST_WRITES + 1])
def test_an_append_sees_the_overwrite_of_a_partition_that_is_a_table_of_its_own(
    store: GcsStore, job: JobAttempt, place: str, partitions: int
):
    """However many partitions it writes: of what it had put there, the overwrite would delete some."""
    data = {f"p=0/q={number}/{name}": b"1" for number in range(partitions) for name in "ab"}
    write_job(store, job, {0: data})
    other = new_job_attempt(join(job.destination, place), "job_2", 0)
    store.write(join(other.destination, "old"), b"old")
    overwrite = CommitOptions(mode=ConflictMode.OVERWRITE)
    write_job(store, other, {0: {"new": b"new"}})
    refused: list[str] = []

    def append(call: StoreCall) -> None:
        if call.operation == "list_page" and call.paths[0] == other.destination and not refused:
            with pytest.raises(CommitConflictError) as caught:
                run_commit(store, job, CommitOptions(conflict_wait_seconds=0))
            refused.append(str(caught.value))

    run_commit(WrappedStore(store, before=append), other, overwrite)
    assert len(refused) == 1
    assert refused[0].startswith(f"gs://{store.spec.authority}{other.directory}: ")
    assert run_commit(store, job).moved == len(data)
    found = visible_files(store, job.destination)
    assert found.pop(f"{place}/_SUCCESS")
    assert found == {**data, f"{place}/new": b"new"}


def test_of_tasks_that_the_driver_knows_a_commit_asks_little_but_the_renames(
    store: GcsStore, server: GcsServer, job: JobAttempt
):
    """Two listings of all files by pages; manifests and directories of tasks are deleted in batches."""
    harness.write_job(store, job, {})
    results = []
    for task in range(60):
        names = [f"p={task % 3}/{staged_name('f', task)}"]
        attempt_id = set_up_attempt(store, job, task, 0)
        write_attempt(store, job, attempt_id, dict.fromkeys(names, b"x"))
        results.append(commit_attempt(store, job, task, attempt_id, files=names))
    ahead = load_ahead(store, job, results)
    server.proxy.requests.clear()
    report = run_commit(store, job, CommitOptions(committed_tasks=tuple(results)), ahead=ahead)
    asked = [request for request in server.proxy.requests if "moveTo" not in request.path]
    assert report.moved == 60
    assert len(server.proxy.requests) - len(asked) == 60 + 1  # _SUCCESS
    assert len(asked) <= 50
    listings = [one for one in asked if one.method == "GET" and "tasks%2F" in one.path]
    assert len(listings) <= 2 + 1  # and one of the clean-up
