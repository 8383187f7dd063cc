"""The directories that each mode means; the partitions are those that the job's files are in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.errors import CommitCancelledError, PreflightError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages.load_manifests import load_manifests
from ray_committer.stages.old_data.mode_roots import ModeRoots, roots_of_mode
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import MemoryStore, write_job
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from tests.stages.support import JOB, KINDS, context, loaded, requests, with_job

APPEND, ERROR, OVERWRITE = ConflictMode.APPEND, ConflictMode.ERROR, ConflictMode.OVERWRITE
PARTITION_MODES = (ConflictMode.ERROR_PARTITIONS, ConflictMode.OVERWRITE_PARTITIONS)
TASKS = {0: {"p=1/a": b"1", "p=2/q=1/b": b"2"}, 1: {"p=1/c": b"3"}, 2: {}}
PARTITIONS = ("/table/p=1", "/table/p=2/q=1")
partition_modes = pytest.mark.parametrize("mode", PARTITION_MODES)


def options(mode: ConflictMode) -> CommitOptions:
    return CommitOptions(mode=mode)


def found(store: StoreOperations, mode: ConflictMode, replaced_roots: tuple[str, ...] = ()) -> ModeRoots:
    one = context(store, options(mode))
    return roots_of_mode(one, loaded(one), replaced_roots)


def of_partitions(mode: ConflictMode, partitions: tuple[str, ...]) -> ModeRoots:
    return ModeRoots(replaced=partitions) if mode.replaces else ModeRoots(empty=partitions)


@pytest.mark.parametrize(
    ("mode", "replaced_roots", "roots"),
    [
        (APPEND, (), ModeRoots()),
        (APPEND, ("/table/p=1",), ModeRoots()),
        (ERROR, (), ModeRoots(empty=("/table",))),
        (OVERWRITE, (), ModeRoots(replaced=("/table",))),
        (OVERWRITE, ("/table/p=1",), ModeRoots(replaced=("/table/p=1",))),
        (ConflictMode.OVERWRITE_PARTITIONS, ("/table/p=9",), ModeRoots(replaced=PARTITIONS)),
        (ConflictMode.ERROR_PARTITIONS, (), ModeRoots(empty=PARTITIONS)),
    ],
)
def test_each_mode_means_some_directories(
    mode: ConflictMode, replaced_roots: tuple[str, ...], roots: ModeRoots
):
    store = with_job(TASKS)
    assert found(store, mode, replaced_roots) == roots


@partition_modes
@pytest.mark.parametrize("new_store", KINDS.values(), ids=KINDS)
def test_the_partitions_are_found_on_every_kind_of_store(
    mode: ConflictMode, new_store: Callable[[], MemoryStore]
):
    store = new_store()
    write_job(store, JOB, TASKS)
    assert found(store, mode) == of_partitions(mode, PARTITIONS)


@partition_modes
def test_a_directory_without_files_of_the_job_is_no_partition(mode: ConflictMode):
    store = with_job(TASKS)
    attempt = set_up_attempt(store, JOB, 3, 0)
    store.mkdirs(join(JOB.task_attempt(attempt), "p=3"))
    commit_attempt(store, JOB, 3, attempt)
    manifest = max(store.list_status(JOB.manifests), key=lambda status: status.path)
    assert b"/table/p=3" in store.read(manifest.path)
    assert found(store, mode) == of_partitions(mode, PARTITIONS)


@partition_modes
def test_a_partition_can_be_above_another(mode: ConflictMode):
    store = with_job({0: {"p=1/a": b"1", "p=1/q=1/b": b"2"}})
    assert found(store, mode) == of_partitions(mode, ("/table/p=1", "/table/p=1/q=1"))


@partition_modes
def test_a_directory_above_the_destination_is_never_a_partition(mode: ConflictMode):
    store, job = MemoryStore(), new_job_attempt("/all/table", "job_1", 0)
    write_job(store, job, {0: {"p=1/a": b"1"}})
    path = store.list_status(job.manifests)[0].path
    store.write(path, store.read(path).replace(b"/all/table/p=1/a", b"/all/a"))
    one = context(store, options(mode), job=job)
    manifests = load_manifests(one, ("/all/table", "/all"), stamp=_stamp(store, path))
    with pytest.raises(PreflightError, match=r"^/all/a: is in no partition"):
        roots_of_mode(one, manifests, ())


def _stamp(store: StoreOperations, path: str) -> str:
    return str(json.loads(store.read(path))["extraData"]["ray_committer.stamp"])


@partition_modes
def test_a_manifest_that_is_saved_again_since_changes_nothing_of_what_was_loaded(mode: ConflictMode):
    store = with_job(TASKS)
    manifests = loaded(context(store, options(mode)))
    before = found(store, mode)
    again = set_up_attempt(store, JOB, 0, 1)
    write_attempt(store, JOB, again, {"p=7/a": b"1"})
    commit_attempt(store, JOB, 0, again)
    assert roots_of_mode(context(store, options(mode)), manifests, ()) == before


@partition_modes
def test_manifests_that_were_just_loaded_cost_no_request(mode: ConflictMode):
    store = with_job(TASKS)
    loads = requests(store, lambda one: loaded(context(one, options(mode))))
    assert requests(store, lambda one: found(one, mode)) - loads == Counter()


@partition_modes
def test_a_cancelled_search_is_not_taken_for_a_job_without_partitions(mode: ConflictMode):
    store = with_job(TASKS)
    one = context(store, options(mode))
    manifests = loaded(one)
    one.cancelled.cancel()
    with pytest.raises(CommitCancelledError):
        roots_of_mode(one, manifests, ())
