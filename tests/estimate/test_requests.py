"""The requests that an estimate names are those that real commits make, kind by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from ray_committer import CommitOptions
from ray_committer.estimate.inputs import Job, Setup
from ray_committer.estimate.profiles import ADLS, GCS, HDFS, S3
from ray_committer.estimate.steps import requests_of, steps
from ray_committer.estimate.stores import (
    COMPLETE,
    DELETE,
    KINDS,
    LIST,
    LOOK,
    MKDIRS,
    READ,
    RENAME,
    STATE,
    WRITE,
    Store,
)
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)
from tests.servers.fake_s3 import FakeS3, direct_store

KIND_OF = {
    "rename": RENAME,
    "publish": COMPLETE,
    "read": READ,
    "read_state": READ,
    "write": WRITE,
    "create": WRITE,
    "mkdirs": MKDIRS,
    "get_status": LOOK,
    "advance": STATE,
    "move_directory": STATE,
    "replace": STATE,
}
"""The kinds of the store's operations; the others list or delete, as their names say."""


def kind_of(operation: str) -> str:
    if operation.startswith("list"):
        return LIST
    return DELETE if operation.startswith(("delete", "remove")) else KIND_OF[operation]


def s3() -> StoreOperations:
    return direct_store(FakeS3())


def memory(identity: Identity, *, real: bool, cheap: bool = False) -> Callable[[], StoreOperations]:
    return lambda: MemoryStore(identity=identity, real_directories=real, listing_is_cheap=cheap)


STORES: dict[str, tuple[Store, Callable[[], StoreOperations]]] = {
    "hdfs": (HDFS, memory(Identity.MODIFICATION_TIME, real=True, cheap=True)),
    "abfs": (ADLS, memory(Identity.ETAG, real=True)),
    "gs": (GCS, memory(Identity.GENERATION, real=False)),
    "s3": (S3, s3),
}
SLACK = {("gs", DELETE): 1}
"""One operation deletes many objects there, by several requests."""
SHAPES = [(1, 1, 1), (5, 40, 4), (20, 20, 10), (40, 2, 2)]


def real_requests(store: StoreOperations, tasks: int, files: int, directories: int) -> Counter[str]:
    job = new_job_attempt("/bucket/table", "job_1", 0)
    written = {
        task: {f"p={n % directories}/f-{task}-{n}": b"x" for n in range(files)} for task in range(tasks)
    }
    write_job(store, job, written)
    calls: list[StoreCall] = []
    wrapped = WrappedStore(store, before=calls.append)
    wrapped.capabilities = replace(wrapped.capabilities, deletes_trees=True)  # the double deletes names
    run_commit(wrapped, job, CommitOptions())
    return Counter(kind_of(call.operation) for call in calls)


def estimated(store: Store, tasks: int, files: int, directories: int) -> dict[str, float]:
    leaves = min(files, directories)
    job = Job(tasks * files, tasks, leaves, leaves if store.listing_is_cheap else 1)
    return requests_of(steps(job, Setup(store, 0.05, in_flight=32)))


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(("tasks", "files", "directories"), SHAPES)
def test_an_estimate_names_the_requests_of_a_real_commit(
    name: str, tasks: int, files: int, directories: int
):
    profile, new_store = STORES[name]
    real = real_requests(new_store(), tasks, files, directories)
    found = estimated(profile, tasks, files, directories)
    for kind in KINDS:
        assert abs(real[kind] - found.get(kind, 0)) <= SLACK.get((name, kind), 0), (kind, real, found)
