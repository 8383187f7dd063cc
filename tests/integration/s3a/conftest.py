"""moto, the real S3A client in a JVM, and for each test a bucket and a job of its magic committer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.integration.s3a.odd_files import TABLE
from tests.servers.moto import MotoServer
from tests.servers.s3_bucket import Bucket, new_bucket
from tests.servers.s3a import S3AJob, S3AJvm, s3a_jvm


@pytest.fixture(scope="module")
def s3a(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3AJvm]:
    with s3a_jvm(tmp_path_factory.mktemp("jvm")) as started:
        yield started


@pytest.fixture
def bucket(moto: MotoServer) -> Iterator[Bucket]:
    with new_bucket(moto.url) as made:
        yield made


@pytest.fixture
def job(s3a: S3AJvm, bucket: Bucket) -> S3AJob:
    options = {"fs.s3a.multipart.size": "5M"}
    return S3AJob(s3a.jvm, f"s3a://{bucket.name}/{TABLE}", str(uuid.uuid4()), bucket.endpoint, options)
