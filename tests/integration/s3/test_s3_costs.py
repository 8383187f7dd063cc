"""What a job on S3 is billed for: its requests by kind, as the table on the page says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.servers.fake_s3 import FakeS3, direct_store
from tests.tables.support import TABLE, table_on

pytestmark = pytest.mark.xdist_group("s3")

PAGE = Path(__file__).parents[3] / "docs" / "stores" / "s3.md"
ROW = r"^\| (append|overwrite) \|.*\| \$([\d.]+) \| \$([\d.]+) \|$"
TASKS, FILES = 4, 50
FREE, READ, WRITE = "free", "read", "write"
PRICES = {WRITE: 0.005, READ: 0.0004, FREE: 0.0}
"""Dollars per 1,000 requests."""


def kind_of(method: str, _: str, query: str) -> str:
    """The price class: deletions and aborts are free, listings cost as much as writes."""
    if method == "DELETE" or query.startswith("delete"):
        return FREE
    is_listing = method == "GET" and ("list-type" in query or "uploads" in query)
    return WRITE if method in ("PUT", "POST") or is_listing else READ


def asked(fake: FakeS3) -> Counter[str]:
    found = Counter(kind_of(*one) for one in fake.requests)
    fake.requests.clear()
    return found


def costs(tasks: int, files: int, mode: ConflictMode, *, has_log: bool = False) -> list[Counter[str]]:
    """The requests of the tasks, with the set-up of the job, and those of its commit."""
    fake = FakeS3()
    store, job = direct_store(fake), new_job_attempt(TABLE.destination, "job_1", 0)
    if has_log:
        table_on(store)
    if mode.replaces:
        for number in range(tasks * files):
            put_file(store, f"{TABLE.destination}/day=1/old-{number}", b"old")
    named = {task: {f"day=1/{task}-{number}": b"x" for number in range(files)} for task in range(tasks)}
    fake.requests.clear()
    write_job(store, job, named, mode=mode)
    found = [asked(fake)]
    run_commit(store, job, CommitOptions(mode=mode))
    return [*found, asked(fake)]


def slope(mode: ConflictMode) -> tuple[float, float]:
    """Dollars per 100,000 files, in tasks of `FILES` files, for the tasks and for the commit."""
    few, many = costs(TASKS, FILES, mode), costs(2 * TASKS, FILES, mode)
    dollars = [
        sum(PRICES[kind] * (more[kind] - less[kind]) for kind in PRICES) / 1000
        for less, more in zip(few, many, strict=True)
    ]
    times = 100_000 / (TASKS * FILES)
    return dollars[0] * times, dollars[1] * times


def test_the_page_has_the_costs_of_100_000_files():
    found = re.findall(ROW, PAGE.read_text(), re.MULTILINE)
    rows = {mode: (float(tasks), float(commit)) for mode, tasks, commit in found}
    for mode in (ConflictMode.APPEND, ConflictMode.OVERWRITE):
        tasks, commit = slope(mode)
        assert rows[mode.value] == (round(tasks, 2), round(commit, 2))


@pytest.mark.server
@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (1, 5), (3, 5)])
def test_what_a_job_leaves_on_a_bucket_with_versions_is_as_the_page_says(
    s3: Any, bucket: str, options: dict[str, Any], tasks: int, files: int
):
    """Of a job that replaces the files of one before, by a process that has tried the bucket before."""

    def left() -> tuple[int, int]:
        found = s3.list_object_versions(Bucket=bucket)
        assert not found["IsTruncated"]
        return len(found.get("Versions", ())), len(found.get("DeleteMarkers", ()))

    def commit(number: int, mode: ConflictMode) -> tuple[int, int]:
        before = left()
        job = new_job_attempt("/t/table", f"job_{number}", 0)
        each = {
            task: {f"p={task}/{number}-{file}": b"1" for file in range(files)} for task in range(tasks)
        }
        write_job(store, job, each, mode=mode)
        run_commit(store, job, CommitOptions(mode=mode))
        versions, markers = left()
        return versions - before[0], markers - before[1]

    store = S3Store(StoreSpec("s3", bucket, options))
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    commit(1, ConflictMode.APPEND)
    every = tasks * files
    assert commit(2, ConflictMode.APPEND) == (2 * every + 3 * tasks + 9, every + 3 * tasks + 6)
    replaced = 2 * every
    expected = 2 * every + 3 * tasks + 9, every + 3 * tasks + 5 + replaced
    assert commit(3, ConflictMode.OVERWRITE) == expected
