"""One HDFS for all tests of a process, and what they need of it.

Their group is that of the tests on Ray, some of which need it, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store
from tests.servers.hdfs import HdfsServer
from tests.servers.hdfs_gate import HdfsGate


@pytest.fixture
def server(hdfs: HdfsServer) -> HdfsServer:
    return hdfs


@pytest.fixture
def rpc(server: HdfsServer) -> StoreSpec:
    return StoreSpec("hdfs", server.authority)


@pytest.fixture
def gate(server: HdfsServer) -> Iterator[HdfsGate]:
    """What loses answers of the NameNode: those of this test, and none of the next one's."""
    yield server.gate
    server.gate.lose_no_more()


@pytest.fixture
def web(server: HdfsServer) -> StoreSpec:
    return StoreSpec("webhdfs", server.http_url.removeprefix("http://"))


@pytest.fixture(params=["rpc", "web"])
def store(request: pytest.FixtureRequest) -> StoreOperations:
    """Both ways to HDFS."""
    return open_store(request.getfixturevalue(request.param))


@pytest.fixture
def directory() -> str:
    """A path of its own for each test; the space and the umlaut are in every request."""
    return f"/tests/{uuid.uuid4()} ö"


@pytest.fixture
def root(store: StoreOperations, directory: str) -> str:
    """A directory of its own for each test."""
    store.mkdirs(directory)
    return directory
