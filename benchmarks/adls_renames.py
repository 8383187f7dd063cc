"""What does one rename on Azure Data Lake Storage cost the client, and how many a second are made?

As in ``http_renames.py``: canned answers, 10 ms away, 1, 32 and 128 renames in flight, the processor
time of the client's process. Requests are signed with a key. adlfs has no rename: its move is a copy and
a delete, two requests, of which none says whether the copy has ended.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import ExitStack
from importlib.metadata import version

import harness
from canned_server import canned_server
from fsspec.asyn import get_loop, sync
from http_renames import (
    IN_FLIGHT,
    MILLISECONDS,
    RATE,
    SECONDS,
    Client,
    Run,
    by_threads,
    measure,
    names,
)

from ray_committer.stores.adls.auth import SharedKey
from ray_committer.stores.adls.connect import Connection
from ray_committer.stores.adls.http import AdlsHttp
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.base import StoreSpec

ACCOUNT = "account"
KEY = "a2V5IG9mIGFuIGFjY291bnQgdGhhdCBpcyBub3QgdGhlcmU="
ETAG = "0x8DC0000000000AB"
SLOW = {1: 100, 32: 600, 128: 600}
"""As `IN_FLIGHT`, for clients that take milliseconds of processor a rename."""

_HEADERS = (
    f'ETag: "{ETAG}"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
    "x-ms-request-id: 1f2e3d4c-0000-0000-0000-000000000000\r\nx-ms-version: 2023-11-03\r\n"
    "x-ms-client-request-id: 1f2e3d4c\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
)
_COPIED = f"{_HEADERS}x-ms-copy-id: 1\r\nx-ms-copy-status: success\r\n"


def _connection(url: str) -> Connection:
    endpoint = f"{url}/{ACCOUNT}"
    return Connection(ACCOUNT, endpoint, endpoint, SharedKey(ACCOUNT, KEY))


def adls_store(url: str) -> Run:
    store = AdlsStore(StoreSpec("abfs"), AdlsHttp(_connection(url), "lake"))
    return by_threads(lambda source, dest: store.rename(f"/{source}", f"/{dest}", ETAG))


def datalake_aio(url: str) -> Run:
    """Microsoft's asynchronous client, from one event loop."""
    from azure.core import MatchConditions
    from azure.storage.filedatalake.aio import FileSystemClient

    credential = {"account_name": ACCOUNT, "account_key": KEY}
    client = FileSystemClient(f"{url}/{ACCOUNT}", "lake", credential=credential, retry_total=0)

    async def rename_all(renames: int, in_flight: int) -> None:
        left = iter(range(renames))

        async def work() -> None:
            for _ in left:
                source, dest = names()
                await client.get_file_client(source).rename_file(
                    f"lake/{dest}",
                    match_condition=MatchConditions.IfMissing,
                    source_etag=f'"{ETAG}"',
                    source_match_condition=MatchConditions.IfNotModified,
                )

        await asyncio.gather(*(work() for _ in range(in_flight)))

    run: Run = lambda renames, in_flight: sync(get_loop(), rename_all, renames, in_flight)  # noqa: E731
    weakref.finalize(run, lambda: sync(get_loop(), client.close))
    return run


def adlfs_copy_and_delete(url: str) -> Run:
    """What ``adlfs``' ``mv`` of one file comes to, without what it looks up before."""
    from adlfs import AzureBlobFileSystem

    text = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url}/{ACCOUNT}"
    system = AzureBlobFileSystem(connection_string=text, skip_instance_cache=True)

    async def move_all(renames: int, in_flight: int) -> None:
        left = iter(range(renames))

        async def work() -> None:
            for _ in left:
                source, dest = names()
                await system._cp_file(f"lake/{source}", f"lake/{dest}")
                await system._rm_file(f"lake/{source}")

        await asyncio.gather(*(work() for _ in range(in_flight)))

    return lambda renames, in_flight: sync(system.loop, move_all, renames, in_flight)


OWN = "AdlsStore"
CLIENTS = {
    OWN: Client("", adls_store, "201 Created", _HEADERS),
    "azure-storage-file-datalake aio rename_file": Client("", datalake_aio, "201 Created", _HEADERS),
    "adlfs copy and delete": Client("", adlfs_copy_and_delete, "202 Accepted", _COPIED),
}


def measure_in_turn(runs: dict[str, Run], in_flight: int) -> dict[str, float]:
    """Each client once, so that all of them see the same moods of the machine."""
    found = {}
    for name, run in runs.items():
        renames = (IN_FLIGHT if name == OWN else SLOW)[in_flight]
        found[f"{name}, {MILLISECONDS}"], found[f"{name}, {RATE}"] = measure(run, renames, in_flight)
    return found


def main() -> None:
    levels = {}
    with ExitStack() as stack:
        runs = {}
        for name, client in CLIENTS.items():
            server = canned_server(client.status, client.body, client.headers, seconds=SECONDS)
            runs[name] = client.open(stack.enter_context(server))
        for in_flight in IN_FLIGHT:
            levels[f"{in_flight} in flight"] = harness.rounds(lambda: measure_in_turn(runs, in_flight))  # noqa: B023
    at_32, at_128 = (levels[f"{number} in flight"]["median"] for number in (32, 128))
    cost = {name: at_32[f"{name}, {MILLISECONDS}"] for name in CLIENTS}
    bars = {f"{OWN}, {MILLISECONDS}, 32 in flight": (cost[OWN], "<=", 0.4)}
    for name in list(CLIENTS)[1:]:
        ratio = round(cost[name] / cost[OWN], 1)
        bars[f"{name}, processor time to that of {OWN}, 32 in flight"] = (ratio, ">=", 3.0)
    bars[f"{OWN}, {RATE}, 128 in flight"] = (at_128[f"{OWN}, {RATE}"], ">=", 2000)
    libraries = {name: version(name) for name in ("pycurl", "adlfs", "azure-storage-file-datalake")}
    harness.save("adls_renames", __doc__ or "", {"libraries": libraries, "levels": levels}, bars)


if __name__ == "__main__":
    main()
