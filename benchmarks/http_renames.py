"""What does one rename over HTTP cost the client, and how many a second does one process make?

Each client renames against a server of canned answers, 10 ms away, with 1, 32 and 128 renames in flight.
Processor time is that of the client's process with all its threads. Each is answered with as much as the
real store would send it: ours asks for one field of the object, others get all.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import harness
from canned_server import canned_server
from fsspec.asyn import sync

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import open_store

SECONDS = 0.010
IN_FLIGHT = {1: 100, 32: 2_000, 128: 3_000}
"""Renames in flight, and how many are made in a round."""

MILLISECONDS = "ms of processor a rename"
RATE = "renames a second"
GENERATION = "1700000000000000"
ATTEMPT = "warehouse/table/_temporary/manifest_job_1/00/tasks/attempt_1_m_000001_0"
_numbers = itertools.count()

Run = Callable[[int, int], None]
"""Makes a number of renames, with another number of them in flight."""


@dataclass(frozen=True, slots=True)
class Client:
    """One way to rename: what its server answers, and how it is opened at a URL."""

    body: str
    open: Callable[[str], Run]
    status: str = "200 OK"
    headers: str = "Content-Type: application/json\r\n"


def names() -> tuple[str, str]:
    """A source and its destination, as a job has them."""
    number = next(_numbers)
    name = f"year=2026/month={number % 12:02d}/part-00001-{number:08d}.c000.snappy.parquet"
    return f"{ATTEMPT}/{name}", f"warehouse/table/{name}"


def by_threads(rename: Callable[[str, str], object]) -> Run:
    """Call a client that blocks, from as many threads as there are renames in flight."""

    def run(renames: int, in_flight: int) -> None:
        left = iter(range(renames))

        def work() -> None:
            for _ in left:
                rename(*names())

        threads = [threading.Thread(target=work) for _ in range(in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def gcs_store(url: str) -> Run:
    store = open_store(StoreSpec("gs", "bucket", {"token": "anon", "endpoint_url": url}))
    return by_threads(lambda source, dest: store.rename(f"/{source}", f"/{dest}", GENERATION))


def gcsfs_mv_file(url: str) -> Run:
    """gcsfs' own move, from its own event loop, so without a change of threads."""
    from gcsfs.core import GCSFileSystem

    filesystem = GCSFileSystem(token="anon", endpoint_url=url, skip_instance_cache=True)  # noqa: S106

    async def rename_all(renames: int, in_flight: int) -> None:
        left = iter(range(renames))

        async def work() -> None:
            for _ in left:
                source, dest = names()
                await filesystem._mv_file(f"bucket/{source}", f"bucket/{dest}")

        await asyncio.gather(*(work() for _ in range(in_flight)))

    return lambda renames, in_flight: sync(filesystem.loop, rename_all, renames, in_flight)


def google_cloud_storage(url: str) -> Run:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    anonymous: Any = AnonymousCredentials
    client = storage.Client(
        project="project", credentials=anonymous(), client_options={"api_endpoint": url}
    )
    client._http.mount("http://", HTTPAdapter(pool_connections=4, pool_maxsize=max(IN_FLIGHT)))
    bucket = client.bucket("bucket")
    return by_threads(
        lambda source, dest: bucket.move_blob(
            bucket.blob(source), dest, if_generation_match=0, if_source_generation_match=int(GENERATION)
        )
    )


_OBJECT = json.dumps(
    {
        "kind": "storage#object",
        "id": f"bucket/warehouse/table/part-00001.c000.snappy.parquet/{GENERATION}",
        "selfLink": "http://host/storage/v1/b/bucket/o/warehouse%2Ftable%2Fpart-00001.c000.snappy.parquet",
        "mediaLink": "http://host/download/storage/v1/b/bucket/o/warehouse%2Ftable%2Fpart-00001?alt=media",
        "name": "warehouse/table/part-00001.c000.snappy.parquet",
        "bucket": "bucket",
        "generation": GENERATION,
        "metageneration": "1",
        "contentType": "application/octet-stream",
        "storageClass": "STANDARD",
        "size": "134217728",
        "md5Hash": "XrY7u+Ae7tCTyyK7j1rNww==",
        "crc32c": "yZRlqg==",
        "etag": "CICAgICAgIDAAhAB",
        "timeCreated": "2026-01-01T00:00:00.000Z",
        "updated": "2026-01-01T00:00:00.000Z",
        "timeStorageClassUpdated": "2026-01-01T00:00:00.000Z",
    }
)
CLIENTS = {
    "GcsStore": Client(json.dumps({"generation": GENERATION}), gcs_store),
    "gcsfs mv_file": Client(_OBJECT, gcsfs_mv_file),
    "google-cloud-storage move_blob": Client(_OBJECT, google_cloud_storage),
}


def measure(run: Run, renames: int, in_flight: int) -> tuple[float, float]:
    """Milliseconds of processor time a rename, and renames a second."""
    processor, wall = time.process_time(), time.perf_counter()
    run(renames, in_flight)
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return processor / renames * 1000, renames / wall


def measure_in_turn(runs: dict[str, Run], renames: int, in_flight: int) -> dict[str, float]:
    """Each client once, so that all of them see the same moods of the machine."""
    found = {}
    for name, run in runs.items():
        found[f"{name}, {MILLISECONDS}"], found[f"{name}, {RATE}"] = measure(run, renames, in_flight)
    return found


def main() -> None:
    levels = {}
    with ExitStack() as stack:
        runs = {}
        for name, client in CLIENTS.items():
            server = canned_server(client.status, client.body, client.headers, seconds=SECONDS)
            runs[name] = client.open(stack.enter_context(server))
        for in_flight, renames in IN_FLIGHT.items():
            levels[f"{in_flight} in flight"] = harness.rounds(
                lambda: measure_in_turn(runs, renames, in_flight)  # noqa: B023
            )
    at_32, at_128 = (levels[f"{number} in flight"]["median"] for number in (32, 128))
    own, gcsfs = (at_32[f"{name}, {MILLISECONDS}"] for name in ("GcsStore", "gcsfs mv_file"))
    bars = {
        f"GcsStore, {MILLISECONDS}, 32 in flight": (own, "<=", 0.3),
        "GcsStore, processor time to that of gcsfs mv_file, 32 in flight": (
            round(own / gcsfs, 2),
            "<=",
            1.0,
        ),
        f"GcsStore, {RATE}, 128 in flight": (at_128[f"GcsStore, {RATE}"], ">=", 2000),
    }
    libraries = {name: version(name) for name in ("pycurl", "aiohttp", "gcsfs", "google-cloud-storage")}
    harness.save("http_renames", __doc__ or "", {"libraries": libraries, "levels": levels}, bars)


if __name__ == "__main__":
    main()
