"""What Spark's tasks have committed is loaded per job, and forgotten when the job is over."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer.options import CommittedTask
from ray_committer.spark.callback import callback
from ray_committer.spark.handler import CommitHandler
from ray_committer.spark.job_settings import HandlerSettings
from ray_committer.spark.tasks_ahead import JOBS, TasksAhead
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from ray_committer.work.load_ahead import LoadAhead
from tests.jar_requests import request, tasks_of
from tests.results import results_of
from tests.stages.support import JOB, context, stamp_of_job
from tests.work.test_load_ahead import a_job, left


@pytest.fixture(name="store")
def _store() -> MemoryStore:
    return a_job()


@pytest.fixture(name="tasks")
def _tasks(store: MemoryStore) -> list[CommittedTask]:
    return results_of(store, JOB)


def ahead_of(store: MemoryStore) -> LoadAhead:
    return LoadAhead(lambda: context(store), stamp_of_job(store))


def test_each_job_has_its_own(store: MemoryStore, tasks: list[CommittedTask]):
    jobs = TasksAhead()
    for job_id in ("a", "b"):
        jobs.expect(job_id, ahead_of(store))
    assert jobs.load("a", tasks[:1])
    assert jobs.load("b", tasks[1:])
    assert not jobs.load("never set up here", tasks)
    taken = {job_id: jobs.take(job_id) for job_id in ("a", "b")}
    assert {job_id: left(one, store, tasks) for job_id, one in taken.items() if one} == {
        "a": [1, 2],
        "b": [0],
    }


def test_a_job_that_is_taken_or_over_is_forgotten(store: MemoryStore, tasks: list[CommittedTask]):
    jobs = TasksAhead()
    jobs.expect("a", ahead_of(store))
    assert jobs.take("a") is not None
    jobs.load("a", tasks)
    assert jobs.take("a") is None
    jobs.expect("a", ahead_of(store))
    jobs.end_all()
    assert jobs.take("a") is None


def test_a_job_that_is_set_up_again_begins_anew(store: MemoryStore, tasks: list[CommittedTask]):
    jobs, first, second = TasksAhead(), ahead_of(store), ahead_of(store)
    jobs.expect("a", first)
    jobs.expect("a", second)
    jobs.load("a", tasks)
    assert left(first, store, tasks) == [0, 1, 2]
    assert jobs.take("a") is second


def test_of_jobs_that_never_end_the_oldest_are_forgotten(store: MemoryStore):
    jobs = TasksAhead()
    for number in range(JOBS + 1):
        jobs.expect(str(number), ahead_of(store))
    assert jobs.take("0") is None
    assert all(jobs.take(str(number)) is not None for number in range(1, JOBS + 1))


def test_a_job_that_ends_does_not_wait_for_a_manifest_that_is_being_read(
    store: MemoryStore, tasks: list[CommittedTask]
):
    reads, goes_on = threading.Event(), threading.Event()

    def wait(call: StoreCall) -> None:
        if call.operation == "read":
            reads.set()
            assert goes_on.wait(30)

    stamp = stamp_of_job(store)
    jobs = TasksAhead()
    jobs.expect("a", LoadAhead(lambda: context(WrappedStore(store, before=wait)), stamp))
    unsent = [replace(task, text=None) for task in tasks]
    loading = threading.Thread(target=jobs.load, args=("a", unsent))
    loading.start()
    assert reads.wait(30)
    ahead = jobs.take("a")
    goes_on.set()
    loading.join(30)
    assert ahead is not None
    assert len(left(ahead, store, unsent)) == 3


def handler() -> CommitHandler:
    return CommitHandler(HandlerSettings(executor="inline"))


def with_texts(dest: Path) -> list[dict[str, Any]]:
    manifests = dest / "_temporary/job_1/00/manifests"
    return [{**task, "text": (manifests / task["manifest"]).read_text()} for task in tasks_of(dest)]


@pytest.mark.parametrize("has_texts", [True, False])
def test_a_job_whose_tasks_were_told_while_others_ran_is_committed(dest: Path, tree, has_texts: bool):
    spark = handler()
    spark.setupJob(request(dest))
    for task, name in enumerate(("a", "p=1/b")):
        with ray_committer.task_attempt(str(dest), "job_1", task) as attempt:
            Path(attempt.path(name)).write_text(name)
    tasks = with_texts(dest) if has_texts else tasks_of(dest)
    for task in tasks:
        assert spark.loadTasks(request(dest, tasks=[task])) == "{}"
    assert json.loads(spark.commitJob(request(dest, tasks=tasks_of(dest)))) == {}
    assert tree() == {"a": "a", "p=1/b": "p=1/b"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"jobId": "job_1"}',
        '{"jobId": "job_1", "tasks": [{"manifest": 1}]}',
        '{"jobId": "job_1", "tasks": [{"text": "\\udc00"}]}',
    ],
)
def test_a_request_that_cannot_be_read_is_left_to_the_commit(text: str):
    assert "at the commit" in handler().loadTasks(text)


def test_tasks_are_loaded_only_with_the_secret(dest: Path):
    python: Any = callback(handler(), "the secret")
    assert "without the secret" in python.loadTasks("guessed", request(dest, tasks=[]))
    assert "at the commit" in python.loadTasks("the secret", request(dest, tasks=[]))
