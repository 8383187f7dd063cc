"""Jobs on a store, with content of their own in each file: what the tests of all stores write."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import commit_attempt, set_up_attempt

Tasks = Mapping[int, Mapping[str, bytes]]


def tasks_of(files: int, *, tasks: int = 4) -> dict[int, dict[str, bytes]]:
    """Files with content of their own, over tasks and seven partitions; the names have escapes."""
    return {
        task: {
            f"p=%3A{number % 7}/part {task:05d}-{number}": b"content of %d" % number
            for number in range(task, files, tasks)
        }
        for task in range(tasks)
    }


def all_of(tasks: Tasks) -> dict[str, bytes]:
    return {name: data for files in tasks.values() for name, data in files.items()}


def write_job(store: StoreOperations, job: JobAttempt, tasks: Tasks) -> None:
    """A job whose tasks are committed."""
    setup_job(store, job)
    for task, files in tasks.items():
        attempt_id = set_up_attempt(store, job, task, 0)
        write_files(store, job.task_attempt(attempt_id), files)
        commit_attempt(store, job, task, attempt_id)


def set_up_as_hadoop(store: StoreOperations, job: JobAttempt) -> None:
    """Set a job up as Hadoop's committer does, which knows of no state."""
    for directory in (job.manifests, job.tasks):
        store.mkdirs(directory)


def write_files(store: StoreOperations, directory: str, files: Mapping[str, bytes]) -> None:
    """Write files, named relative to a directory, some at a time."""
    if store.capabilities.has_directories:
        for above in {parent(join(directory, name)) for name in files}:
            store.mkdirs(above)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.write(join(directory, name), files[name]), files))
