"""How much memory does the driver need to commit ten million files on S3, and how long does it take?

20,000 tasks have uploaded 500 files each. The driver lists all uploads that wait, 1,000 a request, as on
S3, and compares them with the manifests; two Ray workers complete them by a request that is not made. A
tenth of that for the slope. The server is the strict one of the tests in a process of its own; its list
of uploads is made as it is asked for. Memory is the driver's peak resident size (``ru_maxrss``) in a
process of its own, and its growth while it commits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from s3_server import run_server, started
from ten_million_entries import commit

from ray_committer.limits.permits import Permits
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.manifest import STAMP, FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from ray_committer.work.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.fake_s3 import FakeS3, Object, direct_store, uploads_page

TASKS, FILES = 20_000, 500
TASKS_A_DIRECTORY = 20
ETAG = "9dd4e461268c8034f5c8564e155c67a6"
JOB = new_job_attempt("/table", "job_1", 0)


def name_of(number: int) -> str:
    """The object of a file; the order of names is that of numbers."""
    task = number // FILES
    return f"table/year=2026/day={task // TASKS_A_DIRECTORY:04d}/part-{task:06d}-{number % FILES:04d}"


def id_of(number: int) -> str:
    return f"id-{number:09d}"


class ManyUploads(FakeS3):
    """A server on which so many uploads wait."""

    waiting = 0

    def _get_uploads(
        self, objects: object, name: str, asked: Mapping[str, str], *_: object
    ) -> HttpAnswer:
        after = asked.get("upload-id-marker")
        first = int(after.removeprefix("id-")) + 1 if after else 0
        last = min(first + self.page, self.waiting)
        found = [(name_of(one), id_of(one), 0.0) for one in range(first, last)]
        return uploads_page(found, is_last=last == self.waiting)


def with_job(tasks: int) -> FakeS3:
    """A server with the manifests of a job of so many tasks."""
    fake = ManyUploads()
    fake.waiting = tasks * FILES
    stamp = setup_job(direct_store(fake), JOB)
    for task in range(tasks):
        manifest = TaskManifest(
            job_id=JOB.job_id,
            task_id=f"task_1_m_{task:06d}",
            task_attempt_id=f"attempt_1_m_{task:06d}_0",
            task_attempt_dir=f"s3://bucket{JOB.task_attempt(f'attempt_1_m_{task:06d}_0')}",
            files=list(entries_of(task)),
            extra_data={STAMP: stamp},
        )
        path = JOB.manifest(f"task_1_m_{task:06d}")
        fake.buckets["bucket"][path[1:]] = Object(encode_manifest(manifest), f"{task:032x}")
    return fake


def entries_of(task: int) -> Iterator[FileEntry]:
    for number in range(task * FILES, (task + 1) * FILES):
        yield FileEntry(d=f"s3://bucket/{name_of(number)}", z=1, u=id_of(number), p=(ETAG,))


class NothingCompletes(S3Store):
    """Completes an upload without a request."""

    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        return Answer.DONE


@dataclass(frozen=True, slots=True)
class OpenNothing:
    """Opens a worker on `NothingCompletes`."""

    storage_options: dict[str, Any]
    job: JobAttempt

    def __call__(self, permits: Permits) -> Worker:
        store = NothingCompletes(StoreSpec("s3", "bucket", self.storage_options))
        return Worker(store, self.job, permits, 4, in_driver=False)


@contextmanager
def server(tasks: int) -> Iterator[dict[str, str]]:
    """Start one with a job of so many tasks; the storage options that lead to it."""
    with started([sys.executable, __file__, "--serve", str(tasks)]) as options:
        yield options


def measure(tasks: int) -> dict[str, float]:
    """A commit in a process of its own."""
    with server(tasks) as options:
        run = subprocess.run(
            [sys.executable, __file__, "--commit", json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    print(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--commit", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        run_server(with_job(arguments.serve), 0.0)
    if arguments.commit:
        store = S3Store(StoreSpec("s3", "bucket", arguments.commit))
        print(json.dumps(commit(JOB, store, OpenNothing(arguments.commit, JOB))))
        return
    small, large = measure(arguments.tasks // 10), measure(arguments.tasks)
    slope = (large["seconds"] / large["files"]) / (small["seconds"] / small["files"])
    harness.save(
        "s3_ten_million",
        __doc__ or "",
        {"runs": [small, large]},
        {
            "driver peak resident MB": (large["peak_mb"], "<=", 250),
            "seconds a file, all over a tenth": (round(slope, 3), "<=", 1.1),
        },
    )


if __name__ == "__main__":
    main()
