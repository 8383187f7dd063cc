"""A job is taken for the one that was named only if it is: one letter more is another job."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import JobNotFoundError, RayCommitterError
from tests.conftest import visible_files

FIRST = CommitOptions(job_attempt=0)
OPTIONS = [CommitOptions(), FIRST]


@pytest.fixture
def both(write_job) -> None:
    """Two jobs, of which one is called as Hadoop's documentation calls the directory of the other."""
    write_job({0: {"a": "of x"}}, job_id="x")
    write_job({0: {"b": "of manifest_x"}}, job_id="manifest_x")


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("named", "other"), [("x", "manifest_x"), ("manifest_x", "x")])
def test_an_abort_by_name_takes_that_job_and_no_other(
    both, dest: Path, named: str, other: str, options: CommitOptions
):
    assert ray_committer.abort_job(str(dest), named, options=options)
    (left,) = ray_committer.list_jobs(str(dest))
    assert left.directory.endswith(f"/{other}/00")
    ray_committer.commit_job(str(dest), other)
    assert list(visible_files(dest).values()) == [f"of {other}"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("named", ["x", "manifest_x"])
def test_a_commit_by_name_takes_that_job_and_no_other(
    both, dest: Path, named: str, options: CommitOptions
):
    ray_committer.commit_job(str(dest), named, options=options)
    assert list(visible_files(dest).values()) == [f"of {named}"]
    assert len(ray_committer.list_jobs(str(dest))) == 1


def test_both_are_listed_under_their_own_names(both, dest: Path):
    assert sorted(job.job_id for job in ray_committer.list_jobs(str(dest))) == ["manifest_x", "x"]


@pytest.mark.parametrize("options", OPTIONS)
def test_an_abort_takes_no_job_whose_name_only_begins_like_a_directory(
    write_job, dest: Path, options: CommitOptions
):
    """There is no job x: what is there is of a job that is really called manifest_x."""
    write_job({0: {"b": "of manifest_x"}}, job_id="manifest_x")
    with pytest.raises(JobNotFoundError, match="belongs to job manifest_x, so it is not used as job x"):
        ray_committer.abort_job(str(dest), "x", options=options)
    ray_committer.commit_job(str(dest), "manifest_x")
    assert visible_files(dest) == {"b": "of manifest_x"}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_job_without_manifests_is_not_deleted_by_a_name_that_may_be_anothers(
    dest: Path, options: CommitOptions
):
    ray_committer.setup_job(str(dest), "manifest_x")
    with pytest.raises(JobNotFoundError, match="name the job manifest_x"):
        ray_committer.abort_job(str(dest), "x", options=options)
    assert ray_committer.abort_job(str(dest), "manifest_x")


@pytest.mark.parametrize("options", OPTIONS)
def test_the_directory_of_hadoops_documentation_is_found_by_its_jobs_name(
    write_job, dest: Path, options: CommitOptions
):
    job = write_job({0: {"a": "of x"}}, job_id="x")
    documented = Path(job.job_directory).with_name("manifest_x")
    Path(job.job_directory).rename(documented)
    for manifest in documented.rglob("*.json"):
        manifest.write_text(manifest.read_text().replace("/_temporary/x/", "/_temporary/manifest_x/"))
    with pytest.raises(RayCommitterError):
        ray_committer.commit_job(str(dest), "manifest_x", options=options)
    ray_committer.commit_job(str(dest), "x", options=options)
    assert visible_files(dest) == {"a": "of x"}
