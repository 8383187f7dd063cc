"""A server of Google Cloud Storage's API, and a store on a bucket of its own for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.gcs.store import GcsStore
from tests.servers.gcs import GcsServer

RENAMES = int(os.environ.get("RAY_COMMITTER_TEST_RENAMES", "120"))
"""How many files are renamed under faults."""


@pytest.fixture
def server(gcs_server: GcsServer) -> GcsServer:
    return gcs_server


@pytest.fixture
def bucket(server: GcsServer) -> Iterator[str]:
    server.proxy.reset()
    yield server.new_bucket()
    server.proxy.reset()


@pytest.fixture
def store(server: GcsServer, bucket: str) -> GcsStore:
    return GcsStore(StoreSpec("gs", bucket, server.storage_options))


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/warehouse/table", "job_1", 0)
