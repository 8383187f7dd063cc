"""Which requests a commit on S3 makes without faults: from `commit_job` to its return, in a new process.

``F`` completions, ``T`` reads of manifests, a listing per 1,000 pending uploads, and 15 more; a look for
other jobs per directory that files go to, and one per directory above the parent of the destination.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

import ray_committer
from tests.servers.fake_s3 import FakeS3, FakeS3Server

MOST_FIXED = 15


def commit(dest: str, tasks: int, files: int, *, page: int = 1000, again: int = 1) -> Counter[str]:
    """Write and commit a job, `again` times, through the API; the requests of the last commit."""
    server = FakeS3Server(FakeS3(page=page)).start()
    server.fake.buckets["bucket"] = {}
    options = {"storage_options": server.storage_options}
    try:
        for job in map(str, range(again)):
            ray_committer.setup_job(dest, job, **options)
            for task in range(tasks):
                with ray_committer.task_attempt(dest, job, task=task, **options) as attempt:
                    for number in range(files):
                        with attempt.open(f"{job}-{task}-{number}") as file:
                            file.write(b"x")
            server.fake.requests.clear()
            ray_committer.commit_job(dest, job, executor="inline", **options)
    finally:
        server.stop()
    return Counter(map(kind_of, server.fake.requests))


def kind_of(request: tuple[str, str, str]) -> str:
    method, name, query = request
    if "uploads=" in query:
        return "list uploads"
    if "list-type" in query:
        return "list above" if re.search("prefix=_temporary", query) else "list"
    if "uploadId=" in query:
        return "complete"
    for kind, pattern in PATTERNS.items():
        name = re.sub(pattern, kind, name)
    return f"{method} {re.sub('.*/', '', name)}".strip()


PATTERNS = {
    "manifest": r".*-manifest\.json",
    "pack": r".*/packs/.*",
    "record": r".*/state/\w+\.json",
}
FIXED = Counter(
    {
        "list": 4,  # the job's files; other jobs; the job's files once it is declared; the clean-up
        "list above": 1,
        "GET current": 1,
        "GET _SUCCESS": 1,
        "PUT pack": 1,
        "PUT record": 1,
        "PUT current": 3,  # declared, recorded, committed
        "PUT _SUCCESS": 1,
        "POST": 1,  # all files of the job but its state
        "DELETE current": 1,
    }
)


def test_a_commit_makes_15_requests_beside_those_of_its_files_and_tasks():
    found = commit("s3://bucket/table", 4, 10)
    assert found == FIXED + Counter({"complete": 40, "GET manifest": 4, "list uploads": 1})
    assert FIXED.total() == MOST_FIXED


@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (3, 0), (7, 3)])
def test_its_number_of_requests_depends_on_files_and_tasks_alone(tasks: int, files: int):
    found = commit("s3://bucket/table", tasks, files, page=20)
    pages = found["list uploads"] + found["list"] - FIXED["list"]
    assert found.total() - pages == tasks * files + tasks + MOST_FIXED - (files == 0)
    assert found["list uploads"] == -(-tasks * files // 20)


def test_a_directory_costs_one_look_for_other_jobs():
    assert commit("s3://bucket/a/b/table", 1, 1).total() == 1 + 1 + 1 + MOST_FIXED + 2


def test_an_earlier_success_costs_its_deletion_and_a_record_that_names_it():
    found = commit("s3://bucket/table", 1, 1, again=2)
    assert found["DELETE _SUCCESS"] == 1
    assert found.total() == 1 + 1 + 1 + MOST_FIXED + 2
