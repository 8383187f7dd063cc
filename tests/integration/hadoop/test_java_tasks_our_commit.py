"""Hadoop's tasks, our job commit: everything the winners wrote arrives, or nothing is touched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ray_committer.errors import (
    CommitConflictError,
    JobGoneError,
    ManifestError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.jobs.commit import commit_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.table_jobs.scan_table import scan_table
from ray_committer.table_jobs.snapshot import snapshot
from ray_committer.table_jobs.table import init_table
from ray_committer.table_jobs.table_changes import history
from tests.integration.hadoop.conftest import Tree, make_tree, read_tree

if TYPE_CHECKING:
    from .conftest import Hadoop, HadoopJob

pytestmark = [pytest.mark.hadoop, pytest.mark.xdist_group("hadoop")]

UUID = "7f0b1c3a-5b0e-4c5e-9c6e-0123456789ab"
ODD_NAMES = [
    "a space",
    " leading and trailing ",
    "100%",
    "x%20y",
    "%3A",
    "%253A",
    "é",
    "e\u0301",
    "日本",
    "emoji 😀🚀",
    'double"quote',
    "single'quote",
    "#?[]",
    "+&;@=$,",
    "back\\slash",
    "<>^`{|}~!*()",
    "tab\t",
    "new\nline",
    "nbsp\u00a0ls\u2028ideographic\u3000",
    "c1\x85",
    "zero\u200bwidth",
    ".hidden",
    "_underscore",
    "..dots..",
    "a.crc",
    "k=v",
    "n" * 255,
]
ODD_FILES = {
    **{name: f"file {name}".encode() for name in ODD_NAMES},
    **{f"p={name[:250]}/{name}": f"deep {name}".encode() for name in ODD_NAMES},
}


@pytest.fixture
def job(hadoop: Hadoop, destination: Path) -> HadoopJob:
    started = hadoop.job(destination)
    started.setup_job()
    return started


def commit(job: HadoopJob, **options: object) -> Outcome:
    chosen = CommitOptions(**options)  # type: ignore[arg-type]
    return commit_job(str(job.destination), job.job_id, executor="threads", options=chosen).outcome


def visible(job: HadoopJob) -> Tree:
    """What is at the destination, without the marker."""
    return {name: data for name, data in read_tree(job.destination).items() if name != "_SUCCESS"}


def without_state(tree: Tree) -> Tree:
    """Leaves out the state that a job of Hadoop's set-up is given before anything of it is read."""
    return {name: data for name, data in tree.items() if "/00/state" not in name}


@pytest.mark.parametrize("uuid", [None, UUID], ids=["mapreduce id", "spark id"])
@pytest.mark.parametrize("executor", ["threads", "inline"])
def test_odd_names_of_java_tasks_arrive_unchanged(
    hadoop: Hadoop, destination: Path, uuid: str | None, executor: str
) -> None:
    job = hadoop.job(destination, uuid=uuid)
    job.setup_job()
    names = list(ODD_FILES)
    for task in range(3):
        job.run_task(task, {name: ODD_FILES[name] for name in names[task::3]})
    job.run_task(3, {})
    job.run_task(4, {"empty/deep er/%/": b"", "zero bytes": b""})
    report = commit_job(str(destination), job.job_id, executor=executor)  # type: ignore[arg-type]
    assert visible(job) == make_tree(ODD_FILES, {"empty/deep er/%/": b"", "zero bytes": b""})
    assert (report.files, report.moved, report.manifests) == (len(ODD_FILES) + 1, len(ODD_FILES) + 1, 5)
    assert report.outcome is Outcome.COMMITTED
    assert report.validated == report.files
    assert not (destination / "_temporary").exists()
    assert (destination / "_SUCCESS").stat().st_size > 0


def test_jobs_that_java_has_set_up_are_in_the_log_of_their_table(
    hadoop: Hadoop, destination: Path
) -> None:
    early = hadoop.job(destination, number=7)
    early.setup_job()
    early.run_task(0, {"p=1/a": b"1"})
    with pytest.raises(CommitConflictError, match=r"was set up before the table was made"):
        init_table(str(destination))
    assert commit(early) is Outcome.COMMITTED
    init_table(str(destination))
    first, second = (hadoop.job(destination, number=number) for number in (8, 9))
    for job, name in ((first, "b"), (second, "c")):
        job.setup_job()
        job.run_task(0, {f"p=1/{name}": b"22", f"p=2/{name}": b"3"})
    assert commit(second) is Outcome.COMMITTED
    assert commit(first, mode="overwrite_partitions") is Outcome.COMMITTED
    assert [(one.job_id, one.claim, one.version, one.mode) for one in history(str(destination))][1:] == [
        (second.job_id, 3, 4, "append"),
        (first.job_id, 5, 6, "overwrite"),
    ]
    assert [file.path for file in snapshot(str(destination)).files()] == ["p=1/b", "p=2/b"]
    scan = scan_table(str(destination))
    assert (scan.agrees, scan.compared, scan.claims) == (True, 2, ())


def test_a_job_of_empty_tasks_is_a_success_without_files(job: HadoopJob) -> None:
    job.run_task(0, {})
    job.run_task(1, {})
    assert commit(job) is Outcome.COMMITTED
    assert read_tree(job.destination).keys() == {"_SUCCESS"}


def test_only_the_last_attempt_of_a_task_is_committed(job: HadoopJob) -> None:
    job.run_task(0, {"a": b"first", "only first": b"1"}, attempt=0)
    job.run_task(0, {"a": b"second", "d/b": b"2"}, attempt=1)
    zombie = job.setup_task(0, attempt=2)
    (zombie / "a").write_bytes(b"never committed")
    job.run_task(1, {"c": b"3"})
    assert commit(job) is Outcome.COMMITTED
    assert visible(job) == {"a": b"second", "d": None, "d/b": b"2", "c": b"3"}


def test_output_of_java_tasks_that_did_not_commit_stays_invisible(job: HadoopJob) -> None:
    job.run_task(0, {"a": b"1"})
    (job.setup_task(1) / "b").write_bytes(b"2")
    assert commit(job, expected_tasks=1) is Outcome.COMMITTED
    assert visible(job) == {"a": b"1"}


@pytest.mark.parametrize("number", ["0", "00"])
@pytest.mark.parametrize("attempt", [None, 0], ids=["attempt found", "attempt named"])
def test_the_directory_form_of_the_documentation_is_committed(
    job: HadoopJob, number: str, attempt: int | None
) -> None:
    job.run_task(0, {"a b": b"1", "d/%": b"2"})
    job.run_task(1, {"c": b"3"})
    documented = job.directory.parent.with_name(f"manifest_{job.job_id}") / number
    documented.parent.mkdir()
    job.directory.rename(documented)
    job.directory.parent.rmdir()
    for manifest in (documented / "manifests").glob("task_*.json"):
        text = manifest.read_text("utf-8")
        old, new = f"/{job.job_id}/00/", f"/manifest_{job.job_id}/{number}/"
        assert old in text
        manifest.write_text(text.replace(old, new), "utf-8")
    assert commit(job, job_attempt=attempt) is Outcome.COMMITTED
    assert visible(job) == {"a b": b"1", "d": None, "d/%": b"2", "c": b"3"}
    assert not (job.destination / "_temporary").exists()


def is_frozen(job: HadoopJob, task: int) -> bool:
    return (job.directory / "frozen" / job.manifest(task).name).exists()


def test_a_missing_source_stops_the_commit_and_nothing_is_deleted(job: HadoopJob) -> None:
    files = {f"d/part-{number:03}": f"{number}".encode() for number in range(40)}
    for task in range(4):
        job.run_task(task, {name: files[name] for name in list(files)[task::4]})
    lost = next(job.directory.glob("tasks/*/d/part-021"))
    lost.unlink()
    with pytest.raises(ManifestError, match="part-021: is not there") as caught:
        commit(job)
    assert caught.value.exit_code == 1
    left = [data for name, data in read_tree(job.destination).items() if "part-" in name]
    assert sorted(data for data in left if data) == sorted(
        data for name, data in files.items() if name != "d/part-021"
    )
    assert all(is_frozen(job, task) for task in range(4))
    assert not (job.destination / "_SUCCESS").exists()

    lost.write_bytes(files["d/part-021"])
    assert commit(job) is Outcome.COMMITTED
    assert visible(job) == {"d": None, **files}


def test_a_source_that_shrank_since_its_manifest_is_not_published(job: HadoopJob) -> None:
    job.run_task(0, {"a": b"whole", "b": b"2"})
    next(job.directory.glob("tasks/*/a")).write_bytes(b"half")
    with pytest.raises(RayCommitterError, match=r"/a: has 4 bytes, not 5"):
        commit(job)
    assert not (job.destination / "_SUCCESS").exists()
    assert is_frozen(job, 0)


def test_two_java_tasks_with_one_destination_are_refused_before_anything_moves(job: HadoopJob) -> None:
    job.run_task(0, {"d/same é": b"0", "d/a": b"1"})
    job.run_task(1, {"b": b"2"})
    job.run_task(2, {"d/same é": b"3", "c": b"4"})
    before = read_tree(job.destination)
    with pytest.raises(PreflightError, match="d/same é: would be written more than once") as caught:
        commit(job)
    assert caught.value.exit_code == 1
    assert [number for number in range(3) if f"_m_00000{number}_0/" in str(caught.value)] == [0, 2]
    assert without_state(read_tree(job.destination)) == before


def test_another_java_job_at_the_destination_is_left_alone(hadoop: Hadoop, job: HadoopJob) -> None:
    other = hadoop.job(job.destination, number=8)
    other.setup_job()
    job.run_task(0, {"a": b"1"})
    other.run_task(0, {"b": b"2"})
    assert commit(job) is Outcome.COMMITTED
    other.run_task(1, {"c": b"3"})
    other.commit_job()
    assert visible(job) == {"a": b"1", "b": b"2", "c": b"3"}


def test_manifests_that_a_foreign_clean_up_deleted_are_named_as_such(
    hadoop: Hadoop, job: HadoopJob
) -> None:
    other = hadoop.job(job.destination, number=8)
    other.setup_job()
    job.run_task(0, {"a": b"1"})
    other.run_task(0, {"b": b"2"})
    other.commit_job()
    assert not (job.destination / "_temporary").exists()
    with pytest.raises(
        RayCommitterError, match="the job may have been committed before another job was"
    ):
        commit(job)
    with pytest.raises(JobGoneError, match="1 tasks succeeded"):
        commit(job, expected_tasks=1, job_attempt=0)


def test_a_committed_java_job_is_committed_already(job: HadoopJob) -> None:
    job.run_task(0, {"a": b"1"})
    job.commit_job()
    before = read_tree(job.destination)
    assert commit(job) is Outcome.ALREADY_COMMITTED
    assert read_tree(job.destination) == before
