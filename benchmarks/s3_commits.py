"""What does a commit on S3 cost its client, and how near does it come to the ideal, and to S3A?

The processor time of one completion, back to back on one thread and with 32 in flight 10 ms away,
beside boto3's: where 0.1 ms was asked for, boto3 took 0.8 ms. Then whole commits against a strict server
in another process: 32 in flight at 20 and 35 ms, by threads, and 4 workers on Ray with 64 each, at a
latency at which the server and the client fit on this machine. Ideal is the number of files times the
latency, over the completions in flight. Beside it, as many threads complete as many uploads and do
nothing else: what a commit loses against these is its own. At last Hadoop's real S3A magic committer
with its default threads and this package commit as many uploads each on one server, 35 ms away.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
from canned_server import canned_server
from s3_server import JOB, s3_server

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, StageEnded
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from ray_committer.stores.uploads import pending_uploads

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.fake_s3 import OPTIONS
from tests.servers.s3a import S3AJob, S3AJvm, s3a_jvm

TASKS = 20
THREADS = 32
ROUNDS = 3
WORKERS, WORKER_THREADS = 4, 64
BEHIND_RAY = 0.200
"""Seconds a request takes for 256 in flight: 1,280 completions a second."""
CPU = "ms of processor a completion"
OF_BOTO3 = "of boto3's processor time"
BARE = "bare completion seconds"
X_ETAG = "9dd4e461268c8034f5c8564e155c67a6"
"""The MD5 of the one byte in each file."""

_ETAG = "3858f62230ac3c915f300c664312c11f"
_ID = "VXBsb2FkIElEIGZvciBlbHZpbmcncyBteS1tb3ZpZS5tMnRzIHVwbG9hZA" * 2
_BODY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<CompleteMultipartUploadResult '
    'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Location>http://bucket.s3.amazonaws.com/k</Location>'
    f"<Bucket>bucket</Bucket><Key>k</Key><ETag>&quot;{_ETAG}-1&quot;</ETag></CompleteMultipartUploadResult>"
)
_HEADERS = (
    "x-amz-id-2: Uuag1LuByRx9e6j5Onimru9pO4ZVKnJ2Qz7/C1NPcfTWAtRPfTaOFg==\r\n"
    "x-amz-request-id: 656c76696e6727732072657175657374\r\nServer: AmazonS3\r\n"
    "Content-Type: application/xml\r\n"
)
_numbers = itertools.count()

Complete = Callable[[str], object]
"""Completes the upload of the object with a key."""


def keys(number: int) -> Iterator[str]:
    for one in itertools.islice(_numbers, number):
        yield f"warehouse/table/year=2026/month={one % 12:02d}/part-00001-{one:08d}.c000.snappy.parquet"


def ours(url: str) -> Complete:
    store = S3Store(StoreSpec("s3", "bucket", {**OPTIONS, "endpoint_url": url}))
    return lambda key: store.publish(CompleteUpload(f"/{key}", _ID, (_ETAG,)))


def boto3_client(url: str) -> Complete:
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",  # noqa: S106
        config=Config(max_pool_connections=THREADS),
    )
    parts = {"Parts": [{"PartNumber": 1, "ETag": _ETAG}]}
    return lambda key: client.complete_multipart_upload(
        Bucket="bucket", Key=key, UploadId=_ID, MultipartUpload=parts, IfNoneMatch="*"
    )


CLIENTS = {"S3Store": ours, "boto3": boto3_client}


def processor(complete: Complete, number: int, threads: int) -> float:
    """Milliseconds of processor time of a completion, in this process with all its threads."""
    left = keys(number)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                key = next(left, None)
            if key is None:
                return
            complete(key)

    started = time.process_time()
    on_threads(work, threads)
    return (time.process_time() - started) / number * 1000


def on_threads(work: Callable[[], None], threads: int) -> None:
    crew = [threading.Thread(target=work) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


def bare_seconds(number: int, storage_options: dict[str, str], in_flight: int) -> float:
    """Seconds of the completion of all uploads of a job by threads that do nothing else."""
    store = S3Store(StoreSpec("s3", "bucket", storage_options))
    uploads = pending_uploads(store, f"/s3a-{number}")
    left = iter([CompleteUpload(one.path, one.id, (X_ETAG,)) for one in uploads])

    def work() -> None:
        for action in left:
            assert store.publish(action) is Answer.DONE

    started = time.monotonic()
    on_threads(work, in_flight)
    return time.monotonic() - started


def completions() -> dict[str, Any]:
    """The processor time of each client, in turn."""
    found = {}
    for name, seconds, threads in (("back to back", 0.0, 1), ("32 in flight", 0.010, THREADS)):
        with canned_server("200 OK", _BODY, _HEADERS, seconds=seconds) as url:
            clients = {client: opened(url) for client, opened in CLIENTS.items()}
            found[name] = harness.rounds(lambda: costs(clients, threads))  # noqa: B023
    return found


def costs(clients: dict[str, Complete], threads: int) -> dict[str, float]:
    """The processor time of each client, and what ours is of boto3's, which a slower machine leaves."""
    taken = {
        client: processor(one, 300 if client == "boto3" else 2_000, threads)
        for client, one in clients.items()
    }
    named = {f"{client}, {CPU}": one for client, one in taken.items()}
    return {**named, OF_BOTO3: taken["S3Store"] / taken["boto3"]}


def commit(
    dest: str, storage_options: dict[str, str], executor: Any, options: CommitOptions
) -> dict[str, float]:
    """Commit a job; seconds of the whole commit, and of its completions."""
    stages: dict[str, float] = {}

    def listen(event: Event) -> None:
        if isinstance(event, StageEnded):
            stages[event.stage] = event.seconds

    started = time.monotonic()
    report = ray_committer.commit_job(
        dest,
        JOB,
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=listen,
    )
    return {
        "files": report.files,
        "seconds": time.monotonic() - started,
        "completion_seconds": stages[names.RENAME_FILES],
    }


def against_ideal(
    seconds: float, files: int, in_flight: int, executor: Any, options: CommitOptions
) -> dict[str, Any]:
    """Commits of jobs with `files` files, each of which is completed in `seconds`."""
    with s3_server(seconds, jobs=ROUNDS + 1, tasks=TASKS, files=files // TASKS) as storage_options:
        jobs = iter(range(ROUNDS + 1))

        def measure() -> dict[str, float]:
            number = next(jobs)
            bare = bare_seconds(number, storage_options, in_flight)
            found = commit(f"s3://bucket/table-{number}", storage_options, executor, options)
            took, ideal = found["completion_seconds"], files * seconds / in_flight
            return {**found, BARE: bare, "of ideal": ideal / took, "of bare": bare / took}

        return harness.rounds(measure, number=ROUNDS)


def on_ray(files: int) -> dict[str, Any]:
    """The same by four workers with 64 threads each."""
    options = CommitOptions(workers=WORKERS, worker_threads=WORKER_THREADS)
    in_flight = WORKERS * WORKER_THREADS
    with harness.local_ray(), ray_committer.commit_pool(options) as pool:
        return against_ideal(BEHIND_RAY, files, in_flight, pool, options)


def beside_s3a(files: int, seconds: float) -> dict[str, Any]:
    """Hadoop's committer with its default threads, and this package with 64, in turn on one server."""
    with (
        tempfile.TemporaryDirectory() as directory,
        s3a_jvm(Path(directory)) as jvm,
        s3_server(seconds, jobs=3, tasks=TASKS, files=files // TASKS) as options,
    ):
        return {"rounds": [turn(jvm, options, number) for number in range(3)][1:]}


def by_s3a(jvm: S3AJvm, options: dict[str, str], number: int) -> float:
    """Seconds of the commit of a job by Hadoop's committer."""
    s3a = S3AJob(
        jvm.jvm, f"s3a://bucket/s3a-{number}", JOB, options["endpoint_url"], {"fs.s3a.bucket.probe": "0"}
    )
    started = time.monotonic()
    s3a.commit_job()
    return time.monotonic() - started


def turn(jvm: S3AJvm, options: dict[str, str], number: int) -> dict[str, float]:
    theirs = by_s3a(jvm, options, number)
    own = commit(
        f"s3://bucket/table-{number}", options, "threads", CommitOptions(threads=WORKER_THREADS * 2)
    )
    return {
        "files": own["files"],
        "S3A, seconds": theirs,
        "seconds": own["seconds"],
        "times": theirs / own["seconds"],
    }


def main() -> None:
    s3a = beside_s3a(2_000, 0.035)
    print(s3a)
    cpu = completions()
    print({name: one["median"] for name, one in cpu.items()})
    threads = CommitOptions(threads=THREADS)
    at = {
        f"{THREADS} in flight, {ms} ms": against_ideal(ms / 1000, 10_000, THREADS, "threads", threads)
        for ms in (20, 35)
    }
    at[f"{WORKERS} x {WORKER_THREADS} in flight, {BEHIND_RAY * 1000:.0f} ms"] = on_ray(30_000)
    print({name: one["median"] for name, one in at.items()})
    bars: dict[str, tuple[float, str, float]] = {
        f"{CPU}, {name}": (one["median"][f"S3Store, {CPU}"], "<=", 0.1) for name, one in cpu.items()
    }
    bars |= {f"{OF_BOTO3}, {name}": (one["median"][OF_BOTO3], "<=", 0.125) for name, one in cpu.items()}
    for of in ("of ideal", "of bare"):
        bars |= {f"{of}, {name}": (one["median"][of], ">=", 0.95) for name, one in at.items()}
    bars["throughput to that of S3A's default threads"] = (
        min(round(one["times"], 2) for one in s3a["rounds"]),
        ">=",
        7.5,
    )
    harness.save(
        "s3_commits", __doc__ or "", {"completions": cpu, "commits": at, "beside S3A": s3a}, bars
    )


if __name__ == "__main__":
    main()
