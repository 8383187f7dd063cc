"""What ``_SUCCESS`` says of a job, and what it does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import JobGoneError
from ray_committer.job_files.success import is_noted, read_success
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.success import SuccessData
from ray_committer.stages.save_success_file import save_success_file, write_success_file
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, run_commit
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, closed, context, record_of, set_up, with_job


def test_a_marker_of_another_job_proves_nothing(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}))
    with pytest.raises(JobGoneError, match="holds nothing of job job_2") as caught:
        ray_committer.commit_job(str(dest), "job_2")
    assert caught.value.exit_code == 3


def test_a_success_file_that_may_not_be_read_tells_of_no_job():
    store = set_up(JOB)
    store.write(JOB.success, b"another user's")
    assert not is_noted(closed(store, JOB.success), JOB)


def test_only_a_marker_that_names_its_job_is_read():
    store = MemoryStore()
    assert read_success(store, "/table") is None
    put_file(store, JOB.success, b"")
    assert read_success(store, "/table") is None
    setup_job(store, JOB)
    found = context(store)
    save_success_file(found, write_success_file(found, record_of(), []))
    success = read_success(store, "/table")
    assert isinstance(success, SuccessData)
    assert success.job_id == "job_1"


def test_the_marker_of_one_attempt_tells_nothing_of_another():
    """The other may have been aborted; only one that tells no attempt, as Hadoop's, may be of each."""
    store = with_job({0: {"a": b"x"}})
    run_commit(store, JOB)
    second = new_job_attempt("/table", JOB.job_id, 1)
    assert is_noted(store, JOB)
    assert not is_noted(store, second)
    with pytest.raises(JobGoneError):
        run_commit(store, second)
    content = json.loads(store.read(JOB.success))
    del content["diagnostics"]["attempt"]
    store.write(JOB.success, json.dumps(content).encode())
    assert is_noted(store, second)
