"""What does one rename on Azure Data Lake Storage cost the client, and how many a second are made?

As in ``http_renames.py``: canned answers, 10 ms away, 1, 32 and 128 renames in flight, the processor
time of the client's process. Requests are signed with a key. adlfs has no rename: its move is a copy and
a delete, two requests, of which none says whether the copy has ended.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from importlib.metadata import version

import harness
from canned_server import canned_server
from fsspec.asyn import get_loop, sync
from http_renames import IN_FLIGHT, SECONDS, Client, Run, by_threads, measure, names

from ray_committer.stores.adls import AdlsStore
from ray_committer.stores.adls_auth import Connection, SharedKey
from ray_committer.stores.adls_http import AdlsHttp
from ray_committer.stores.adls_sdk import SdkAdlsStore
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


def sdk_store(url: str) -> Run:
    store = SdkAdlsStore(StoreSpec("abfs"), _connection(url), "lake")
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
    'AdlsStore, transport="sdk"': Client("", sdk_store, "201 Created", _HEADERS),
    "azure-storage-file-datalake aio rename_file": Client("", datalake_aio, "201 Created", _HEADERS),
    "adlfs copy and delete": Client("", adlfs_copy_and_delete, "202 Accepted", _COPIED),
}


def measure_client(name: str, client: Client) -> dict[str, object]:
    counts = IN_FLIGHT if name == OWN else SLOW
    with canned_server(client.status, client.body, client.headers, seconds=SECONDS) as url:
        run = client.open(url)
        return {
            f"{in_flight} in flight": harness.rounds(lambda: measure(run, renames, in_flight))  # noqa: B023
            for in_flight, renames in counts.items()
        }


def main() -> None:
    found = {name: measure_client(name, client) for name, client in CLIENTS.items()}

    def cost(name: str) -> float:
        return float(found[name]["32 in flight"]["median"]["milliseconds_a_rename"])  # type: ignore[index]

    at_128 = found[OWN]["128 in flight"]["median"]["renames_a_second"]  # type: ignore[index]
    bars = {f"{OWN}: ms of processor a rename, 32 in flight": (cost(OWN), "<=", 0.4)}
    for name in list(CLIENTS)[1:]:
        ratio = round(cost(name) / cost(OWN), 1)
        bars[f"processor time of {name} to that of {OWN}, 32 in flight"] = (ratio, ">=", 3.0)
    bars[f"{OWN}: renames a second, 128 in flight"] = (at_128, ">=", 2000)
    libraries = ("aiohttp", "adlfs", "azure-storage-file-datalake")
    harness.save(
        "adls_renames",
        __doc__ or "",
        {
            "libraries": {name: version(name) for name in libraries},
            "load_average": os.getloadavg(),
            "clients": found,
        },
        bars,
    )


if __name__ == "__main__":
    main()
