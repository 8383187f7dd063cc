"""What a commit on Google Cloud Storage proves, refuses and costs."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, ManifestError
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.recovery import Proof
from ray_committer.stages.cleanup_job import FEW_ATTEMPTS
from ray_committer.stores.gcs import GcsStore
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit, visible_files
from tests.integration.gcs.jobs import write_hadoop_job
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.gcs import GcsServer
from tests.servers.proxy import Request

pytestmark = pytest.mark.xdist_group("gcs")

WRITERS = pytest.mark.parametrize("write", [write_job, write_hadoop_job])


def at_move(number: int, act, job: JobAttempt):
    """Do something before the move of a file with this number."""
    moved: list[StoreCall] = []

    def hook(call: StoreCall) -> None:
        if call.operation == "rename" and not call.paths[0].startswith(join(job.directory, "_")):
            moved.append(call)
            if len(moved) == number:
                act(call)

    return hook


def crash(call: StoreCall) -> None:
    raise SimulatedCrash(call)


@WRITERS
def test_a_commit_that_died_in_the_middle_is_proved_by_checksum_and_size(
    store: GcsStore, job: JobAttempt, write
):
    tasks = tasks_of(40)
    write(store, job, tasks)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=at_move(18, crash, job)), job)
    report = run_commit(store, job)
    assert report.outcome is Outcome.COMMITTED
    assert (report.moved, report.proved) == (23, {Proof.ETAG: 17})
    assert visible_files(store, job.destination) == all_of(tasks)
    assert store.get_status(job.temporary) is None


@WRITERS
def test_what_another_wrote_over_a_moved_file_is_not_taken_for_it(
    store: GcsStore, job: JobAttempt, write
):
    write(store, job, {0: {"a": b"ours", "b": b"1"}})
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=at_move(2, crash, job)), job)
    (moved,) = visible_files(store, job.destination)
    store.write(join(job.destination, moved), b"else" if moved == "a" else b"2")  # as long as ours
    with pytest.raises(CommitConflictError, match="is not what its manifest says"):
        run_commit(store, job)
    assert set(visible_files(store, job.destination).values()) <= {b"else", b"ours", b"1", b"2"}


@WRITERS
def test_a_source_that_a_zombie_rewrote_is_refused_by_name(store: GcsStore, job: JobAttempt, write):
    write(store, job, tasks_of(12, tasks=1))
    rewritten: list[str] = []

    def rewrite(call: StoreCall) -> None:
        rewritten.append(call.paths[0])
        store.write(call.paths[0], store.read(call.paths[0]))  # even the same bytes

    with pytest.raises(CommitStateUnknownError, match="was written again") as caught:
        run_commit(WrappedStore(store, before=at_move(5, rewrite, job)), job)
    assert rewritten[0] in str(caught.value)
    assert len(visible_files(store, job.destination)) == 4
    assert store.get_status(rewritten[0]) is not None


@WRITERS
def test_a_source_that_changed_before_the_commit_stops_it_before_anything_moves(
    store: GcsStore, job: JobAttempt, write
):
    write(store, job, {0: {"a": b"1", "b": b"2"}})
    source = next(one.path for one in store.list_files(job.tasks) if one.name == "b")
    store.write(source, b"longer")
    with pytest.raises(ManifestError, match="has 6 bytes, the manifest says 1"):
        run_commit(store, job)
    store.delete_file(source)
    with pytest.raises(ManifestError, match="is not there"):
        run_commit(store, job)
    assert visible_files(store, job.destination) == {}


def test_a_file_that_is_there_already_is_never_overwritten(store: GcsStore, job: JobAttempt):
    write_job(store, job, {0: {"a": b"new"}})
    store.write(join(job.destination, "a"), b"old")
    with pytest.raises(CommitConflictError):
        run_commit(store, job)
    assert visible_files(store, job.destination) == {"a": b"old"}


def test_an_overwrite_removes_what_was_there_and_only_that(store: GcsStore, job: JobAttempt):
    store.write(join(job.destination, "p=1/old"), b"old")
    store.write(join(job.destination, "p=2/part"), b"old")
    write_job(store, job, {0: {"p=2/part": b"new"}})
    report = run_commit(
        store,
        job,
        CommitOptions(mode=ray_committer.ConflictMode.OVERWRITE),
    )
    assert report.outcome is Outcome.COMMITTED
    assert visible_files(store, job.destination) == {"p=2/part": b"new"}


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


@WRITERS
@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (5, 40), (FEW_ATTEMPTS + 1, 66)])
def test_a_commit_without_faults_keeps_its_budget(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt, write, tasks: int, files: int
):
    write(store, job, tasks_of(files, tasks=tasks))
    server.proxy.requests.clear()
    report = ray_committer.commit_job(
        f"gs://{bucket}{job.destination}",
        job.job_id,
        executor="threads",
        options=CommitOptions(threads=4, job_attempt=0),
        storage_options=server.storage_options,
    )
    assert report.moved == files
    found = Counter(map(kind, server.proxy.requests))
    print(tasks, files, found)
    several = tasks if tasks > FEW_ATTEMPTS else 0
    assert found["move"] == files + 3  # the record, the commit point, _SUCCESS
    assert found["look"] == 0  # no HEAD a file, nor of anything else
    assert found["read"] == tasks
    assert found["write"] == tasks + 2  # what is known of their files; the record, _SUCCESS
    assert found["list"] <= tasks + several + 8
    assert found["delete"] <= 3 * tasks + 4  # marks of attempts, manifests, what is known of their files
    assert found["layout"] == 1
    assert found.total() == sum(found[name] for name in KINDS)
