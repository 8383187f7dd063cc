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
from dataclasses import dataclass
from importlib.metadata import version

import harness
from canned_server import canned_server
from fsspec.asyn import sync

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import open_store

SECONDS = 0.010
IN_FLIGHT = {1: 150, 32: 3_000, 128: 6_000}
"""Renames in flight, and how many are made in a round."""

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

    client = storage.Client(
        project="project", credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
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


def measure(run: Run, renames: int, in_flight: int) -> dict[str, float]:
    processor, wall = time.process_time(), time.perf_counter()
    run(renames, in_flight)
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return {"milliseconds_a_rename": processor / renames * 1000, "renames_a_second": renames / wall}


def measure_client(client: Client) -> dict[str, object]:
    with canned_server(client.status, client.body, client.headers, seconds=SECONDS) as url:
        run = client.open(url)
        return {
            f"{in_flight} in flight": harness.rounds(lambda: measure(run, renames, in_flight))  # noqa: B023
            for in_flight, renames in IN_FLIGHT.items()
        }


def main() -> None:
    found = {name: measure_client(client) for name, client in CLIENTS.items()}
    own = {level: found["GcsStore"][level]["median"] for level in found["GcsStore"]}
    gcsfs = found["gcsfs mv_file"]["32 in flight"]["median"]
    at_32, at_128 = own["32 in flight"], own["128 in flight"]
    bars = {
        "GcsStore: ms of processor a rename, 32 in flight": (at_32["milliseconds_a_rename"], "<=", 0.3),
        "GcsStore: processor time to that of gcsfs mv_file, 32 in flight": (
            round(at_32["milliseconds_a_rename"] / gcsfs["milliseconds_a_rename"], 2),
            "<=",
            1.0,
        ),
        "GcsStore: renames a second, 128 in flight": (at_128["renames_a_second"], ">=", 2000),
    }
    libraries = ("aiohttp", "gcsfs", "google-cloud-storage")
    harness.save(
        "http_renames",
        __doc__ or "",
        {"libraries": {name: version(name) for name in libraries}, "clients": found},
        bars,
    )


if __name__ == "__main__":
    main()
