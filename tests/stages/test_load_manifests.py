"""Manifests are loaded, checked one by one and counted; a bad one is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.errors import (
    ManifestError,
    MissingManifestsError,
    PathError,
    PreflightError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.stages.worker import Worker
from ray_committer.testing import run_commit
from tests.stages.manifests import edit, refused, set_dest


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda c: c["files"][0].update(s="file:/etc/passwd"), PreflightError, "not this job's"),
        (set_dest("file:/elsewhere/a"), PreflightError, "outside the destination"),
        (set_dest("hdfs://nn/a"), PreflightError, "another store"),
        (set_dest("relative/a"), PathError, "not an absolute path"),
        (lambda c: c["files"][0].update(d=c["files"][0]["d"] + "%zz"), PathError, "no escape"),
        (lambda c: c["files"][0].update(d=c["files"][0]["d"] + "/../b"), PathError, "'..'"),
        (lambda c: c["files"][0].pop("z"), ManifestError, "`z`"),
        (lambda c: c.pop("files"), ManifestError, "`files`"),
        (lambda c: c.update(jobId="job_2"), ManifestError, "is of job job_2"),
        (lambda c: c.update(version=2), ManifestError, "version 2"),
        (lambda c: c.update(type="other"), ManifestError, "no task manifest"),
    ],
)
def test_a_manifest_that_would_lose_or_misplace_data_is_refused_by_name(
    store, write_job, change, error: type[Exception], text: str
):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    path = edit(job, 1, change)
    raised = refused(store, job)
    assert isinstance(raised, error)
    assert str(path) in str(raised)
    assert text in str(raised)


@pytest.mark.parametrize("content", [b"", b"{", b'{"files": [{"s": "file:/a"', b"not json"])
def test_a_truncated_manifest_is_refused_by_name(store, write_job, content: bytes):
    job = write_job({0: {"a": "x"}})
    path = Path(job.manifest("task_1_m_000000"))
    path.write_bytes(content)
    assert str(path) in str(refused(store, job))


def test_a_file_that_one_manifest_names_twice_is_refused(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    path = edit(job, 1, lambda c: c["files"].append({**c["files"][0], "d": f"file:{dest}/c"}))
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    assert str(path) in str(error)
    assert "/b: is named twice" in str(error)


def test_manifests_that_an_executor_did_not_load_are_missed(store, write_job):
    class Forgetful(InlineExecutor):
        def park_tasks(self, work, items):
            return super().park_tasks(work, list(items)[:-1])

    job = write_job({task: {f"f{task}": "x"} for task in range(8)})
    executor = Forgetful(lambda: Worker(store, job, in_driver=True))
    with pytest.raises(MissingManifestsError, match="8 manifests are listed, 6 were loaded"):
        run_commit(store, job, executor=executor)
    assert not Path(job.commit_record).exists()
