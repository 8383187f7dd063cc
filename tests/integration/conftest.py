"""Servers that several directories use: each starts once per process, where a test first asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers.hdfs import HdfsServer, hdfs_server

if TYPE_CHECKING:
    from tests.servers.dfs import DfsServer
    from tests.servers.gcs import GcsServer
    from tests.servers.moto import MotoServer
    from tests.servers.seaweedfs import SeaweedServer


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    from tests.servers.gcs import GcsServer

    server = GcsServer().start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsServer]:
    with hdfs_server() as server:
        yield server


@pytest.fixture(scope="session")
def dfs_server() -> Iterator[DfsServer]:
    from tests.servers.dfs import DfsServer

    server = DfsServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def dfs(dfs_server: DfsServer) -> DfsServer:
    """The account of the DFS server, with an empty container and without faults."""
    dfs_server.clear("lake")
    return dfs_server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    from tests.servers.moto import MotoServer

    server = MotoServer(tmp_path_factory.mktemp("moto"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedServer]:
    from tests.servers.seaweedfs import SeaweedServer

    server = SeaweedServer().start()
    yield server
    server.stop()
