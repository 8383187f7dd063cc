"""What does one rename on HDFS cost the client, and how many a second does one process make?

Each client renames on one NameNode, which runs on this machine too, with 1, 32 and 128 renames in
flight: ours over RPC and over WebHDFS, and fsspec's own over each. Processor time is that of the
client's process with all its threads. The files are empty; each round moves every file with each client.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.servers.hdfs import HdfsServer, hdfs_server

IN_FLIGHT = (1, 32, 128)
FILES = 1_500
FEWER = {1: 300}
"""How many files a round moves, where it is not `FILES`."""

Rename = Callable[[str, str], object]


def hdfs_store(server: HdfsServer) -> Rename:
    return open_store(StoreSpec("hdfs", server.direct_authority)).rename


def webhdfs_store(server: HdfsServer) -> Rename:
    return open_store(StoreSpec("webhdfs", server.http_url.removeprefix("http://"))).rename


def fsspec_hdfs_native(server: HdfsServer) -> Rename:
    from hdfs_native.fsspec import HdfsFileSystem

    host, _, port = server.direct_authority.partition(":")
    filesystem: Any = HdfsFileSystem(host, int(port), skip_instance_cache=True)
    rename: Rename = filesystem.mv
    return rename


def fsspec_webhdfs(server: HdfsServer) -> Rename:
    from fsspec.implementations.webhdfs import WebHDFS

    host, _, port = server.http_url.removeprefix("http://").partition(":")
    filesystem: Any = WebHDFS(host, int(port), user="root", skip_instance_cache=True)
    rename: Rename = filesystem.mv
    return rename


CLIENTS: dict[str, Callable[[HdfsServer], Rename]] = {
    "HdfsStore": hdfs_store,
    "hdfs_native.fsspec mv": fsspec_hdfs_native,
    "WebHdfsStore": webhdfs_store,
    "fsspec webhdfs mv": fsspec_webhdfs,
}


class Files:
    """Empty files that a client moves from one directory to another, and that come back untimed."""

    def __init__(self, server: HdfsServer) -> None:
        self._store = open_store(StoreSpec("hdfs", server.direct_authority))
        self._source, self._dest = "/table/_temporary/00/tasks/attempt_0", "/table/year=2026"
        for directory in (self._source, self._dest):
            self._store.mkdirs(directory)
        self._names = [f"part-{number:05d}-c000.snappy.parquet" for number in range(FILES)]
        in_threads(lambda name: self._store.write(f"{self._source}/{name}", b""), self._names, 32)

    def measure(self, rename: Rename, in_flight: int) -> tuple[float, float]:
        """Move the files with `rename`; milliseconds of processor a rename, and renames a second."""
        names = self._names[: FEWER.get(in_flight, FILES)]
        processor, wall = time.process_time(), time.perf_counter()
        in_threads(
            lambda name: rename(f"{self._source}/{name}", f"{self._dest}/{name}"), names, in_flight
        )
        processor, wall = time.process_time() - processor, time.perf_counter() - wall
        found = len(self._store.list_status(self._dest))
        assert found == len(names), f"{found} of {len(names)} files were moved"
        in_threads(
            lambda name: self._store.rename(f"{self._dest}/{name}", f"{self._source}/{name}"), names, 32
        )
        return processor / len(names) * 1000, len(names) / wall


def in_threads(function: Callable[[str], object], items: list[str], threads: int) -> None:
    left = iter(items)

    def work() -> None:
        for item in left:
            function(item)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def measure_all(files: Files, clients: dict[str, Rename], in_flight: int) -> dict[str, float]:
    """One round: each client in turn, so that what else the machine does harms all alike."""
    found = {}
    for name, rename in clients.items():
        found[f"{name}: ms"], found[f"{name}: renames/s"] = files.measure(rename, in_flight)
    return found


def main() -> None:
    with hdfs_server() as server:
        files = Files(server)
        clients = {name: opened(server) for name, opened in CLIENTS.items()}
        levels = {
            in_flight: harness.rounds(lambda: measure_all(files, clients, in_flight))  # noqa: B023
            for in_flight in IN_FLIGHT
        }
    medians = {in_flight: level["median"] for in_flight, level in levels.items()}
    at_32, at_128 = medians[32], medians[128]
    web = at_32["WebHdfsStore: ms"] / at_32["fsspec webhdfs mv: ms"]
    bars = {
        "HdfsStore: ms of processor a rename, 32 in flight": (at_32["HdfsStore: ms"], "<=", 0.1),
        "HdfsStore: ms of processor a rename, 128 in flight": (at_128["HdfsStore: ms"], "<=", 0.1),
        "WebHdfsStore: processor time to that of fsspec's, 32 in flight": (round(web, 2), "<=", 1.0),
    }
    found = {
        "libraries": {name: version(name) for name in ("hdfs-native", "pycurl", "fsspec")},
        "in_flight": {str(in_flight): level for in_flight, level in levels.items()},
    }
    harness.save("hdfs_renames", __doc__ or "", found, bars)


if __name__ == "__main__":
    main()
