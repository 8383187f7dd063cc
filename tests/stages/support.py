"""What the tests of single stages share: a context, a count of the requests, faults at them."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ray_committer.cancellation import CancelToken
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at

JOB = new_job_attempt("/table", "job_1", 0)
OTHER_JOB = new_job_attempt("/table", "job_2", 0)
NOW = 1_700_000_000_000
WHEN = ("before", "after")
"""A hook before a call keeps it from the store; one after it loses its answer."""

Run = Callable[[StoreOperations], Any]


class SyncedStore(MemoryStore):
    """A store on which paths must be forced to disk; it notes which were."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, needs_sync=True)
        self.synced: list[str] = []

    def sync(self, path: str) -> None:
        if self.get_status(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.synced.append(path)


def context(
    store: StoreOperations,
    options: CommitOptions | None = None,
    *,
    job: JobAttempt = JOB,
    executor: WorkExecutor | None = None,
    emit: EventSink = ignore,
    cancelled: bool = False,
) -> JobContext:
    """What a stage is given, with its work done inline, so that the order of the calls is fixed."""
    executor = executor or InlineExecutor(lambda: Worker(store, job, in_driver=True))
    token = CancelToken()
    if cancelled:
        token.cancel()
    return JobContext(
        GuardedStore(store, executor.permits),
        job,
        options or CommitOptions(),
        executor,
        emit=emit,
        now_milliseconds=lambda: NOW,
        cancelled=token,
    )


def record_of(manifests: tuple[ManifestRef, ...] = (), **fields: Any) -> CommitRecord:
    """A commit record of `JOB` with what a test cares for."""
    values = {"nonce": "nonce", "job_id": JOB.job_id, "job_attempt": 0, "created_milliseconds": NOW}
    return CommitRecord(manifests=list(manifests), **{**values, **fields})


def loaded(found: JobContext) -> LoadedManifests:
    """Load the job's manifests, as the stages that follow need it."""
    return load_manifests(found, None, (found.job.destination,))


def manifest_path(task: int, job: JobAttempt = JOB) -> str:
    """The place of the manifest that `write_job` saves for a task."""
    return job.manifest(f"task_{job.job_id}_m_{task:06d}")


def source_path(task: int, name: str, job: JobAttempt = JOB) -> str:
    """The place of a file that `write_job` writes for a task."""
    return join(job.task_attempt(f"attempt_{job.job_id}_m_{task:06d}_0"), name)


def requests(store: StoreOperations, run: Run) -> Counter[str]:
    """How many requests of each kind `run` makes."""
    calls: list[StoreCall] = []
    run(WrappedStore(store, before=calls.append))
    return Counter(call.operation for call in calls)


def at(operation: str, error: BaseException, end: str = "") -> Callable[[StoreCall], None]:
    """A hook: raise `error` at each call of an operation whose last path ends in `end`."""

    def hook(call: StoreCall) -> None:
        if call.operation == operation and call.paths[-1].endswith(end):
            raise error

    return hook


def do_at(operation: str, action: Callable[[], Any], end: str = "") -> Callable[[StoreCall], None]:
    """A hook: do something once, at the first call of an operation whose last path ends in `end`."""
    done: list[Any] = []

    def hook(call: StoreCall) -> None:
        if call.operation == operation and call.paths[-1].endswith(end) and not done:
            done.append(None)
            action()

    return hook


def each_crash(new: Callable[[], MemoryStore], run: Run) -> Iterator[MemoryStore]:
    """What a crash of `run` before, and after, each of its calls leaves, each on a store of its own."""
    calls: list[StoreCall] = []
    run(WrappedStore(new(), before=calls.append))
    assert calls
    for call in calls:
        for when in WHEN:
            store = new()
            with pytest.raises(SimulatedCrash):
                run(WrappedStore(store, **{when: crash_at(call.number)}))
            yield store


def before_the_write(run: Callable[[], Any]) -> WrappedStore:
    """A store on which `run` happens just before the first file is written."""
    return WrappedStore(LocalStore(StoreSpec("file")), before=do_at("write", run))
