"""S3 has no rename: a destination there is refused before a single request, and stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer.cli.main import main
from ray_committer.errors import StoreRefusedError
from tests.servers.moto import MotoServer

pytestmark = pytest.mark.xdist_group("s3")

BUCKET = "warehouse"
KEYS = (
    "table/p=1/old.parquet",
    "table/_SUCCESS",
    "table/_temporary/job_1/00/manifests/task_1_m_000000-manifest.json",
    "table/_temporary/job_1/00/tasks/attempt_1_m_000000_0/p=1/new.parquet",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    moto = MotoServer(tmp_path_factory.mktemp("moto"))
    moto.start()
    yield moto
    moto.stop()


@pytest.fixture(scope="module")
def s3(server: MotoServer) -> Iterator[Any]:
    """A client of the server, on which a bucket holds a table with a job that is not committed."""
    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for key in KEYS:
        client.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    yield client
    client.close()


def snapshot(s3: Any) -> list[tuple[str, str, str, object]]:
    """Every version of every object, which shows whatever was written, deleted or copied."""
    found = s3.list_object_versions(Bucket=BUCKET)
    assert not found["IsTruncated"]
    assert "DeleteMarkers" not in found
    return sorted(
        (one["Key"], one["VersionId"], one["ETag"], one["LastModified"]) for one in found["Versions"]
    )


def write_a_task(dest: str, **options: Any) -> None:
    with ray_committer.task_attempt(dest, "job_1", 1, **options):
        raise AssertionError("a task must not run")


OPERATIONS: dict[str, Callable[..., object]] = {
    "commit": lambda dest, **options: ray_committer.commit_job(dest, "job_1", **options),
    "record": lambda dest, **options: ray_committer.record_job(dest, "job_1", **options),
    "plan": lambda dest, **options: ray_committer.plan_job(dest, "job_1", **options),
    "validate": lambda dest, **options: ray_committer.validate_job(dest, "job_1", **options),
    "setup": ray_committer.setup_job,
    "task": write_a_task,
    "abort": lambda dest, **options: ray_committer.abort_job(dest, "job_1", **options),
    "list": ray_committer.list_jobs,
    "plan abort": lambda dest, **options: ray_committer.plan_abort(dest, "job_1", **options),
    "vacuum": ray_committer.vacuum_jobs,
    "read": ray_committer.read_document,
}
COMMANDS = {
    "commit": ["--assume-complete"],
    "status": [],
    "show": [],
    "validate": [],
    "abort": [],
    "vacuum": [],
    "doctor": [],
}
urls = pytest.mark.parametrize("url", [f"s3://{BUCKET}/table", f"s3a://{BUCKET}/table"])


@urls
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_refused_without_a_request(
    server: MotoServer, s3: Any, url: str, operation: str
):
    before, requests = snapshot(s3), server.requests()
    options = {"endpoint_url": server.url, "key": "test", "secret": "test"}
    with pytest.raises(StoreRefusedError, match="use Hadoop's S3A committers"):
        OPERATIONS[operation](url, storage_options=options)
    assert server.requests() == requests
    assert snapshot(s3) == before


@urls
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_refused_in_one_line(server: MotoServer, s3: Any, url: str, command: str):
    before, requests = snapshot(s3), server.requests()
    options = ["-o", f"endpoint_url={server.url}"]
    result = CliRunner().invoke(main, [command, url, *COMMANDS[command], *options])
    assert result.exit_code == 1
    assert "use Hadoop's S3A committers" in result.output
    assert "Traceback" not in result.output
    assert server.requests() == requests
    assert snapshot(s3) == before


def test_the_bucket_is_really_there(server: MotoServer, s3: Any, tmp_path: Path):
    assert sorted({key for key, *_ in snapshot(s3)}) == sorted(KEYS)
    assert len(server.requests()) > len(KEYS)
