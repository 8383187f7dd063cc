"""The real S3A client and this package on one server: either writes pendingsets that the other reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import FileEntry, TaskManifest
from ray_committer.protocol.pendingsets import decode_pending, decode_pendingset
from ray_committer.protocol.uri import Location, format_uri, parse_uri
from tests.integration.s3a.odd_files import FILES, PART_BYTES, TABLE, TASKS
from tests.pendingsets import encode_pendingset, pendingset_path
from tests.servers.s3_bucket import Bucket
from tests.servers.s3a import TRACKER, S3AJob

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("s3"),
    pytest.mark.timeout(600),
]

DATA = Path(__file__).parents[2] / "data" / "s3a"


@pytest.fixture
def ours(job: S3AJob, bucket: Bucket) -> MagicJob:
    return MagicJob(bucket.name, f"/{TABLE}", job.uuid)


def manifests(bucket: Bucket, ours: MagicJob) -> list[TaskManifest]:
    """The pendingsets on the server."""
    paths = [f"/{key}" for key in bucket.names() if key.endswith(".pendingset")]
    return [decode_pendingset(bucket.read(path[1:]), path, ours) for path in paths]


def complete(bucket: Bucket, file: FileEntry) -> str:
    """Complete an upload as the commit of a job does; the etag of the object, without quotes."""
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(file.p or (), 1)]
    done = bucket.client.complete_multipart_upload(
        Bucket=bucket.name,
        Key=parse_uri(file.d).path[1:],
        UploadId=file.u,
        MultipartUpload={"Parts": parts},
    )
    return str(done["ETag"]).strip('"')


def upload(bucket: Bucket, key: str, data: bytes) -> FileEntry:
    """Upload a file in parts without completing it, as a task of ours does."""
    client, place = bucket.client, {"Bucket": bucket.name, "Key": key}
    upload_id = client.create_multipart_upload(**place)["UploadId"]
    parts = [data[start : start + PART_BYTES] for start in range(0, len(data) or 1, PART_BYTES)]
    etags = [
        client.upload_part(**place, UploadId=upload_id, PartNumber=number, Body=part)["ETag"].strip('"')
        for number, part in enumerate(parts, 1)
    ]
    uri = format_uri(Location("s3", bucket.name, f"/{key}"))
    return FileEntry(d=uri, z=len(data), u=upload_id, p=tuple(etags))


def test_what_real_tasks_leave_is_completed_to_the_etags_that_were_predicted(
    job: S3AJob, bucket: Bucket, ours: MagicJob
):
    job.run_tasks(TASKS)
    found = manifests(bucket, ours)
    assert [one.task_id for one in found] == [f"task_{TRACKER}_0007_m_{task:06d}" for task in TASKS]
    files = [file for one in found for file in one.files]
    assert {parse_uri(file.d).path[1:]: file.u for file in files} == bucket.uploads()
    assert {file.d: complete(bucket, file) for file in files} == {file.d: file.e for file in files}
    visible = {key: data for key, data in bucket.objects(f"{TABLE}/").items() if "/__magic/" not in key}
    assert visible == FILES
    assert bucket.uploads() == {}


def test_an_upload_of_a_task_that_is_not_committed_is_read(job: S3AJob, bucket: Bucket, ours: MagicJob):
    job.setup_job()
    job.write_task(3, {"p=1/a b": b"text"})
    (path,) = [f"/{key}" for key in bucket.names() if key.endswith(".pending")]
    place = ours.place_of(path)
    assert place is not None
    assert place.task_attempt_id == f"attempt_{TRACKER}_0007_m_000003_0"
    entry = decode_pending(bucket.read(path[1:]), path, ours)
    assert (parse_uri(entry.d).path, entry.z) == (f"/{TABLE}/p=1/a b", 4)
    assert complete(bucket, entry) == entry.e


def test_the_real_committer_commits_what_python_wrote(job: S3AJob, bucket: Bucket, ours: MagicJob):
    job.setup_job()
    for task, names in TASKS.items():
        files = [upload(bucket, f"{TABLE}/{name}", data) for name, data in names.items()]
        task_id = f"task_{TRACKER}_0007_m_{task:06d}"
        manifest = TaskManifest(task_id=task_id, task_attempt_id=f"attempt_{task}", files=files)
        path = pendingset_path(ours, task_id)
        bucket.write(path[1:], encode_pendingset(manifest, ours, milliseconds=1_700_000_000_000))
        assert job.pending_set(f"s3a://{bucket.name}{path}").size() == len(files)
    job.commit_job()
    visible = bucket.objects()
    success = json.loads(visible.pop(f"{TABLE}/_SUCCESS"))
    assert visible == FILES
    assert bucket.uploads() == {}
    assert (success["committer"], success["jobId"]) == ("magic", job.uuid)
    assert sorted(success["filenames"]) == sorted(f"/{key}" for key in FILES)


def test_the_client_writes_what_was_recorded(job: S3AJob, bucket: Bucket, ours: MagicJob):
    job.run_tasks(TASKS)
    for task in TASKS:
        path = pendingset_path(ours, f"task_{TRACKER}_0007_m_{task:06d}")
        recorded = (DATA / path.rpartition("/")[2]).read_text()
        assert shape(json.loads(bucket.read(path[1:]))) == shape(json.loads(recorded))


def shape(value: Any) -> Any:
    """The names and types of a JSON document, and its versions."""
    if isinstance(value, dict):
        return {name: one if name == "version" else shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__
