"""A validation says what it compared with, since a ``_SUCCESS`` proves little."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, Evidence
from ray_committer.errors import JobGoneError, JobNotFoundError, ManifestError, ValidationError


def test_manifests_are_complete_evidence(write_job, dest: Path):
    write_job({0: {"a": "x"}, 1: {"b": "y"}})
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    found = ray_committer.validate_job(str(dest))
    assert (found.evidence, found.compared, found.files) == (Evidence.MANIFESTS, 2, 2)
    assert found.is_complete


def test_a_success_file_is_not_and_tells_how_many_it_does_not_name(write_job, dest: Path):
    write_job({0: {f"f{number}": "x" for number in range(150)}})
    ray_committer.commit_job(str(dest))
    found = ray_committer.validate_job(str(dest))
    assert (found.evidence, found.compared, found.files) == (Evidence.SUCCESS, 100, 150)
    assert not found.is_complete


def test_a_file_that_success_names_and_that_is_gone_is_named(write_job, dest: Path):
    write_job({0: {"p=1/a": "x"}})
    ray_committer.commit_job(str(dest))
    (dest / "p=1" / "a").unlink()
    with pytest.raises(ValidationError, match=r"p=1/a: is listed in .*_SUCCESS but missing"):
        ray_committer.validate_job(str(dest), "job_1")


def test_another_jobs_success_is_no_evidence(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest))
    with pytest.raises(JobGoneError, match="belongs to job job_1, not to job_2") as error:
        ray_committer.validate_job(str(dest), "job_2")
    assert error.value.exit_code == 3


def test_nothing_at_all_is_no_evidence_and_a_named_job_may_have_been_committed(dest: Path):
    for job_id, code in ((None, 1), ("job_1", 3)):
        with pytest.raises(JobNotFoundError, match="check the destination's spelling") as error:
            ray_committer.validate_job(str(dest), job_id)
        assert error.value.exit_code == code
    dest.mkdir()
    with pytest.raises(JobNotFoundError, match="nothing to compare") as error:
        ray_committer.validate_job(str(dest))
    assert error.value.exit_code == 1
    with pytest.raises(JobGoneError, match="the job may have been committed before another job was"):
        ray_committer.validate_job(str(dest), "job_1")


@pytest.mark.parametrize("begun", [False, True])
def test_a_job_that_is_not_committed_is_a_difference_and_what_to_do_is_said(
    write_job, dest: Path, begun: bool
):
    write_job({0: {"a": "x"}})
    if begun:
        ray_committer.record_job(str(dest))
    text = "finish it with: ray-committer commit" if begun else "commit it first"
    with pytest.raises(ValidationError, match=text):
        ray_committer.validate_job(str(dest))


def test_an_empty_success_is_said_to_tell_nothing(dest: Path):
    dest.mkdir()
    (dest / "_SUCCESS").touch()
    with pytest.raises(ManifestError, match="is the empty file of a classic committer"):
        ray_committer.validate_job(str(dest))


@pytest.mark.parametrize(("text", "found"), [("longer", "has 6 bytes"), ("y", "was changed")])
def test_a_file_that_was_edited_is_named(write_job, dest: Path, text: str, found: str):
    write_job({0: {"p=1/a": "x"}})
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    (dest / "p=1/a").write_text(text)
    os.utime(dest / "p=1/a", (1, 1))
    with pytest.raises(ValidationError, match=f"p=1/a: {found}"):
        ray_committer.validate_job(str(dest))
