"""`ray-committer commit` finishes a job whose tasks wrote through the real S3A client, on moto."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ray_committer.cli.main import main
from tests.integration.s3a.odd_files import FILES, TABLE, TASKS
from tests.servers.s3_bucket import Bucket
from tests.servers.s3a import S3AJob

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("s3"),
    pytest.mark.timeout(600),
]


def commit(job: S3AJob, tasks: int) -> tuple[int, str]:
    """Run the command; its exit code, and what it printed."""
    url = job.destination.replace(" ", "%20")
    options = {"endpoint_url": job.endpoint, "key": "test", "secret": "test"}
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    arguments = ["commit", url, "--job-id", job.uuid, "--expect-tasks", str(tasks), *given]
    result = CliRunner().invoke(main, [*arguments, "--executor", "threads"])
    return result.exit_code, result.output


def test_a_job_that_s3a_left_is_finished_with_odd_names(job: S3AJob, bucket: Bucket):
    job.run_tasks(TASKS)
    job.write_task(3, {"p=1/of a task that did not commit": b"late"})
    code, output = commit(job, len(TASKS))
    assert code == 0, output
    found = bucket.objects()
    success = json.loads(found.pop(f"{TABLE}/_SUCCESS"))
    assert found == FILES
    assert bucket.uploads() == {}
    assert success["jobId"] == job.uuid
    code, output = commit(job, len(TASKS))
    assert code == 0, output
    assert "already" in output


def test_a_job_with_a_missing_task_stays_as_it_was(job: S3AJob, bucket: Bucket):
    job.run_tasks(TASKS)
    code, output = commit(job, len(TASKS) + 1)
    assert code == 1, output
    assert "4 tasks succeeded but" in output
    assert bucket.uploads().keys() == FILES.keys()
    assert [name for name in bucket.names() if "__magic" not in name and "_temporary" not in name] == []
    job.commit_job()
    assert {name: data for name, data in bucket.objects().items() if name in FILES} == FILES
