"""An account with a hierarchical namespace, one without, and ways to open them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import open_store, resolve_destination
from tests.servers.azurite import Azurite
from tests.servers.dfs import ACCOUNT, DfsServer

CONTAINER = "lake"


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    server = Azurite()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def url() -> str:
    """A destination of its own, in Hadoop's form."""
    return f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{uuid.uuid4()}/table"


@pytest.fixture
def options(dfs: DfsServer) -> dict[str, Any]:
    """Storage options with the account's key."""
    return {"connection_string": dfs.connection_string()}


def opened(url: str, options: dict[str, Any]) -> StoreOperations:
    return open_store(resolve_destination(url, options)[0])
