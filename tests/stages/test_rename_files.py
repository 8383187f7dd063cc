"""Whole commits at their renames: what stops them, and what the same command then finishes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitStateUnknownError, PackChangedError
from ray_committer.executors.base import Item, Result, Work
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol.plan import Shard
from ray_committer.protocol.state import Phase
from ray_committer.testing import StoreCall, WrappedStore, run_commit
from ray_committer.work.worker import Worker
from tests.stages.support import at, now, state_of


def test_a_removed_destination_directory_stops_and_the_next_run_makes_it_again(
    store, write_job, dest: Path, tree
):
    job = write_job({0: {"p=1/a": "x"}})

    def remove(call: StoreCall) -> None:
        if call.operation == "rename" and "p=1" in call.paths[1]:
            os.rmdir(dest / "p=1")

    with pytest.raises(CommitStateUnknownError):
        run_commit(WrappedStore(store, before=remove), job)
    ray_committer.commit_job(str(dest))
    assert tree() == {"p=1/a": "x"}


def test_a_pack_replaced_after_the_record_stops_everything(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    ray_committer.record_job(str(dest))
    (path,) = Path(job.packs).iterdir()
    original = path.read_bytes()
    path.write_bytes(original.replace(b"_0", b"_1"))
    with pytest.raises(PackChangedError) as caught:
        ray_committer.commit_job(str(dest))
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 3
    assert tree() == {}
    path.write_bytes(original)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y"}


@pytest.mark.parametrize("where", ["manifests", "frozen"])
def test_a_manifest_that_the_record_does_not_name_is_never_committed(
    store, write_job, dest: Path, tree, where: str
):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    late = Path(job.directory) / where / "task_1_m_000007-manifest.json"
    late.parent.mkdir(exist_ok=True)
    source = Path(job.task_attempt("attempt_1_m_000007_0")) / "late"
    source.parent.mkdir(parents=True)
    source.write_text("late")
    late.write_text(
        f'{{"files": [{{"s": "file:{source}", "d": "file:{dest}/late", "z": 4}}], "jobId": "job_1"}}'
    )
    assert ray_committer.commit_job(str(dest)).manifests == 1
    assert tree() == {"a": "x"}


@pytest.mark.usefixtures("small_shards")
def test_after_a_failure_nothing_is_begun(store, write_job, tree):
    job = write_job({0: {f"f{number:02d}": "x" for number in range(40)}})

    with pytest.raises(CommitStateUnknownError, match="/f13"):
        run_commit(
            WrappedStore(store, before=at("rename", PermissionError(13, "Permission denied"), "/f13")),
            job,
        )
    assert len(tree()) == 13  # neither the rest of its shard nor another one
    assert run_commit(store, job).files == 40


@pytest.mark.usefixtures("small_shards")
def test_a_cancel_stops_before_the_next_file(store, write_job, tree):
    job = write_job({0: {f"f{number:02d}": "x" for number in range(40)}})

    def cancel(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/f13"):
            executor.cancel()

    watched = WrappedStore(store, before=cancel)
    executor = InlineExecutor(lambda permits: Worker(watched, job, permits, in_driver=True))
    with pytest.raises(CommitStateUnknownError, match="names 40 files, but"):
        run_commit(store, job, executor=executor)
    assert len(tree()) == 14  # what was in flight has ended
    assert run_commit(store, job).files == 40


def test_a_token_tells_late_listeners_at_once():
    token, told = ray_committer.CancelToken(), threading.Event()
    token.cancel()
    listener: Callable[[], None] = told.set
    token.on_cancel(listener)
    assert told.is_set()


@pytest.mark.usefixtures("small_shards")
def test_a_truncated_list_of_renames_is_never_reported_as_success(store, write_job):
    """Hadoop's committer lost 1,093 of 3,000 files this way and reported success."""

    class Truncating(InlineExecutor):
        def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
            found = list(items)
            are_shards = any(isinstance(one, Shard) for one in found)
            return super().run(work, found[:-1] if are_shards else found)

    job = write_job({0: {f"f{number}": "x" for number in range(40)}})
    executor = Truncating(lambda permits: Worker(store, job, permits, in_driver=True))
    with pytest.raises(CommitStateUnknownError, match=r"names 40 files, but \d+ were moved"):
        run_commit(store, job, executor=executor)
    assert state_of(store, job).phase is Phase.RECORDED
    assert list(Path(now(store, job).tasks).rglob("f*"))  # what was not moved is still there
