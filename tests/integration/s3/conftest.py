"""A bucket of its own on moto for each test, and the project's own S3 behind HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from tests.servers.fake_s3 import SERVERS, FakeS3, FakeS3Server
from tests.servers.moto import MotoServer

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def s3(moto: MotoServer) -> Iterator[Any]:
    """boto3's client of moto."""
    client = boto3.client(
        "s3",
        endpoint_url=moto.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    yield client
    client.close()


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"bucket-{next(_NUMBERS)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def options(moto: MotoServer) -> dict[str, Any]:
    """The storage options that lead to moto."""
    return {"endpoint_url": moto.url, "key": "test", "secret": "test", "region": "us-east-1"}


@pytest.fixture
def store(bucket: str, options: dict[str, Any]) -> S3Store:
    return S3Store(StoreSpec("s3", bucket, options))


@pytest.fixture(scope="session", params=SERVERS)
def fake_server(request: pytest.FixtureRequest) -> Iterator[FakeS3Server]:
    server = FakeS3Server(FakeS3(**SERVERS[request.param])).start()
    yield server
    server.stop()


@pytest.fixture
def fake_spec(fake_server: FakeS3Server) -> StoreSpec:
    """An empty bucket of the project's own server."""
    fake_server.fake.clear()
    fake_server.fake.buckets["bucket"] = {}
    return StoreSpec("s3", "bucket", fake_server.storage_options)


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/warehouse/table", "job_1", 0)
