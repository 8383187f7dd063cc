"""A command line that a text shows can be pasted into a shell as it is."""

from __future__ import annotations

import shlex

import pytest

from ray_committer.job_files.commands import abort_command, commit_command, job_command
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.testing import MemoryStore
from tests.stages.support import JOB, closed, requests


def of(spec: StoreSpec) -> MemoryStore:
    store = MemoryStore()
    store.spec = spec
    return store


@pytest.mark.parametrize(
    ("spec", "destination", "shown"),
    [
        (StoreSpec("file"), "/data/table", "/data/table"),
        (StoreSpec("file"), "/data/my table/it's", "/data/my table/it's"),
        (StoreSpec("gs", "bucket"), "/table", "gs://bucket/table"),
        (StoreSpec("hdfs", "nn:8020"), "/a b", "hdfs://nn:8020/a%20b"),
    ],
)
def test_a_shell_reads_the_destination_and_the_job_as_one_word_each(spec, destination: str, shown: str):
    store, job = of(spec), new_job_attempt(destination, "job; rm -rf", 3)
    words = [shown, "--job-id", "job; rm -rf", "--attempt", "3"]
    assert shlex.split(commit_command(store, job)) == ["ray-committer", "commit", *words]
    assert shlex.split(abort_command(store, job)) == ["ray-committer", "abort", *words]
    allowed = ["--allowed-root", shown]
    assert shlex.split(commit_command(store, job, [destination]))[-2:] == allowed


def test_secrets_of_the_store_are_not_shown():
    store = of(StoreSpec("gs", "bucket", {"token": "secret"}))
    assert "secret" not in commit_command(store, new_job_attempt("/table", "job_1", 0))


def test_the_first_attempt_is_named_only_beside_others():
    first, other = (new_job_attempt("/table", "job_1", number) for number in (0, 3))
    assert job_command("commit", "/table", first).endswith("--job-id job_1")
    for job in (first, other):
        command = job_command("commit", "/table", job, name_attempt=True)
        assert command.endswith(f"--job-id job_1 --attempt {job.number}")
    assert job_command("commit", "/table", other).endswith("--job-id job_1 --attempt 3")


@pytest.mark.parametrize("command", [commit_command, abort_command])
def test_whether_there_are_others_costs_a_listing_and_where_nobody_can_tell_it_is_named(command):
    store = MemoryStore()
    store.mkdirs(JOB.manifests)
    assert command(store, JOB).endswith("--job-id job_1")
    assert requests(store, lambda one: command(one, JOB)) == {"list_status": 1}
    assert command(closed(store, JOB.job_directory), JOB).endswith("--job-id job_1 --attempt 0")
    store.mkdirs(new_job_attempt("/table", "job_1", 3).manifests)
    assert command(store, JOB).endswith("--job-id job_1 --attempt 0")
    third = new_job_attempt("/table", "job_1", 3)
    assert requests(store, lambda one: command(one, third)) == {"list_status": 1}
