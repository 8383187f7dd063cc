"""What does one rename on HDFS cost the client, and how many a second does one process make?

Each client renames on one NameNode, which runs on this machine too, with 1, 32 and 128 renames in
flight: ours over RPC and over WebHDFS, and fsspec's own over each. Processor time is that of the
client's process with all its threads. The files are empty; each round moves every file with each client.
Then the same for directories with a file in each, which only our clients move without replacing any.
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

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.servers.hdfs import HdfsServer, hdfs_server

IN_FLIGHT = (1, 32, 128)
FILES = 1_500
FEWER = {1: 300}
"""How many files a round moves, where it is not `FILES`."""

Rename = Callable[[str, str], object]


def hdfs_store(server: HdfsServer) -> StoreOperations:
    return open_store(StoreSpec("hdfs", server.direct_authority))


def webhdfs_store(server: HdfsServer) -> StoreOperations:
    return open_store(StoreSpec("webhdfs", server.http_url.removeprefix("http://")))


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
    "HdfsStore": lambda server: hdfs_store(server).rename,
    "hdfs_native.fsspec mv": fsspec_hdfs_native,
    "WebHdfsStore": lambda server: webhdfs_store(server).rename,
    "fsspec webhdfs mv": fsspec_webhdfs,
}
OF_DIRECTORIES: dict[str, Callable[[HdfsServer], Rename]] = {
    "HdfsStore": lambda server: hdfs_store(server).move_whole,
    "WebHdfsStore": lambda server: webhdfs_store(server).move_whole,
}


class Files:
    """Empty files, or directories with one each, that a client moves from one directory to another, and
    that come back untimed."""

    def __init__(self, server: HdfsServer, *, in_directories: bool = False) -> None:
        self._store = store = hdfs_store(server)
        self._back = store.move_whole if in_directories else store.rename
        what, file = ("directories", "/file") if in_directories else ("files", "")
        self._source, self._dest = f"/table/_temporary/00/{what}", f"/table/{what}"
        for directory in (self._source, self._dest):
            store.mkdirs(directory)
        self._names = [f"part-{number:05d}-c000.snappy.parquet" for number in range(FILES)]

        def write(name: str) -> None:
            if in_directories:
                store.mkdirs(f"{self._source}/{name}")
            store.write(f"{self._source}/{name}{file}", b"")

        in_threads(write, self._names, 32)

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
        in_threads(lambda name: self._back(f"{self._dest}/{name}", f"{self._source}/{name}"), names, 32)
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


def at_each_level(
    server: HdfsServer, files: Files, opens: dict[str, Callable[[HdfsServer], Rename]]
) -> dict[int, dict[str, Any]]:
    clients = {name: opened(server) for name, opened in opens.items()}
    return {
        in_flight: harness.rounds(lambda: measure_all(files, clients, in_flight))  # noqa: B023
        for in_flight in IN_FLIGHT
    }


def main() -> None:
    with hdfs_server() as server:
        levels = at_each_level(server, Files(server), CLIENTS)
        of_directories = at_each_level(server, Files(server, in_directories=True), OF_DIRECTORIES)
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
        "directories": {str(in_flight): level for in_flight, level in of_directories.items()},
    }
    harness.save("hdfs_renames", __doc__ or "", found, bars)


if __name__ == "__main__":
    main()
