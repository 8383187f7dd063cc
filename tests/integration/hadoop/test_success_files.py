"""``_SUCCESS`` across the two committers, and the checksum files of Hadoop's local file system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ray_committer import commit_job, validate_job
from ray_committer.cli.main import main
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.success import decode_success

if TYPE_CHECKING:
    from .conftest import Hadoop, HadoopJob

pytestmark = [pytest.mark.hadoop, pytest.mark.xdist_group("hadoop")]

FILES = {"a b/é %": b"1", "日本/😀": b"22", "plain": b"333"}


@pytest.fixture
def job(hadoop: Hadoop, destination: Path) -> HadoopJob:
    started = hadoop.job(destination)
    started.setup_job()
    return started


def commit(job: HadoopJob, options: CommitOptions | None = None) -> None:
    report = commit_job(
        str(job.destination), job.job_id, executor="threads", options=options or CommitOptions()
    )
    assert report.outcome is Outcome.COMMITTED


def test_java_loads_and_validates_our_success_file(hadoop: Hadoop, job: HadoopJob) -> None:
    names = list(FILES)
    job.run_task(0, {name: FILES[name] for name in names[:2]})
    job.run_task(1, {name: FILES[name] for name in names[2:]})
    commit(job)
    loaded = hadoop.load_success(job.destination / "_SUCCESS")
    assert loaded.success is True
    assert loaded.job_id == job.job_id
    assert loaded.job_id_source == "JobID"
    assert loaded.committer == "ray_committer"
    assert loaded.timestamp > 1_700_000_000_000
    assert sorted(loaded.filenames) == sorted(str(job.destination / name) for name in FILES)
    assert loaded.diagnostics["stage"] == "committer_commit_job"
    assert loaded.counters["committer_files_committed"] == 3
    assert loaded.counters["committer_bytes_committed"] == 6


def test_files_and_directories_are_counted_once_where_java_counts_twice(
    hadoop: Hadoop, tmp_path: Path
) -> None:
    counted = {}
    for committer in ("java", "ours"):
        job = hadoop.job(tmp_path / "table öne" / committer)
        job.setup_job()
        job.run_task(0, {"d/a": b"1", "d/b": b"2"})
        job.run_task(1, {"e/c": b"3"})
        if committer == "java":
            job.commit_job()
        else:
            commit(job)
        counters = hadoop.load_success(job.destination / "_SUCCESS").counters
        counted[committer] = (
            counters["committer_task_file_count"],
            counters["committer_task_directory_count"],
            counters["committer_files_committed"],
        )
    assert counted == {"java": (6, 4, 3), "ours": (3, 2, 3)}


def test_java_loads_our_success_file_of_many_files(hadoop: Hadoop, job: HadoopJob) -> None:
    job.run_task(0, {f"part-{number:03}": b"x" for number in range(150)})
    commit(job)
    loaded = hadoop.load_success(job.destination / "_SUCCESS")
    assert len(loaded.filenames) == len(set(loaded.filenames)) == 100
    assert loaded.counters["committer_files_committed"] == 150


def test_java_loads_our_summary_reports(hadoop: Hadoop, job: HadoopJob, tmp_path: Path) -> None:
    job.run_task(0, {"a": b"1"})
    next(job.directory.glob("tasks/*/a")).rename(tmp_path / "away")
    options = CommitOptions(summary_directory=str(tmp_path / "reports"))
    with pytest.raises(Exception, match="/a: is not there"):
        commit(job, options)
    report = tmp_path / "reports" / f"summary-{job.job_id}.json"
    failed = hadoop.load_success(report)
    assert (failed.success, failed.filenames) == (False, [])
    assert failed.diagnostics["stage"] == "job_stage_save_commit_record"
    assert "/a: is not there" in failed.diagnostics["exception"]

    (tmp_path / "away").rename(next(job.directory.glob("tasks/*")) / "a")
    commit(job, options)
    assert hadoop.load_success(report).success is True


def test_we_read_javas_success_file(hadoop: Hadoop, job: HadoopJob) -> None:
    job.run_task(0, FILES)
    job.commit_job()
    path = job.destination / "_SUCCESS"
    ours, javas = decode_success(path.read_bytes(), str(path)), hadoop.load_success(path)
    assert ours is not None
    assert (ours.job_id, ours.success, ours.timestamp) == (job.job_id, True, javas.timestamp)
    assert ours.iostatistics is not None
    assert ours.iostatistics.counters == javas.counters
    assert ours.diagnostics == javas.diagnostics
    assert validate_job(str(job.destination), job.job_id).compared == len(FILES)


def test_a_success_file_that_does_not_say_so_is_a_success_to_both(
    hadoop: Hadoop, job: HadoopJob
) -> None:
    job.run_task(0, FILES)
    commit(job)
    path = job.destination / "_SUCCESS"
    fields = json.loads(path.read_bytes())
    assert fields.pop("success") is True
    path.write_text(json.dumps(fields))
    ours = decode_success(path.read_bytes(), str(path))
    assert ours is not None
    assert hadoop.load_success(path).success is ours.success is True


def test_show_tells_what_javas_success_file_says(job: HadoopJob) -> None:
    job.run_task(0, FILES)
    job.commit_job()
    shown = CliRunner().invoke(main, ["show", str(job.destination)])
    assert shown.exit_code == 0, shown.output
    assert f"job {job.job_id} succeeded" in shown.output
    assert "3 files, 6 bytes" in shown.output
    assert "by ManifestCommitter on" in shown.output
    as_json = CliRunner().invoke(main, ["show", str(job.destination / "_SUCCESS"), "--output", "json"])
    assert as_json.exit_code == 0, as_json.output
    assert json.loads(as_json.output)["content"] == json.loads(
        (job.destination / "_SUCCESS").read_bytes()
    )


def test_show_tells_what_javas_manifest_says(job: HadoopJob) -> None:
    job.run_task(0, FILES)
    shown = CliRunner().invoke(main, ["show", str(job.manifest(0))])
    assert shown.exit_code == 0, shown.output
    assert "3 files, 6 bytes, 2 directories" in shown.output
    assert f"of job {job.job_id}" in shown.output


def test_the_command_line_commits_a_java_job(job: HadoopJob) -> None:
    job.run_task(0, FILES)
    arguments = ["commit", str(job.destination), "--job-id", job.job_id]
    asked = CliRunner().invoke(main, arguments)
    assert asked.exit_code == 1
    assert "--expect-tasks" in asked.output
    committed = CliRunner().invoke(main, [*arguments, "--expect-tasks", "1"])
    assert committed.exit_code == 0, committed.output
    assert all((job.destination / name).read_bytes() == data for name, data in FILES.items())


def test_a_stale_checksum_of_an_older_success_file_is_removed(hadoop: Hadoop, job: HadoopJob) -> None:
    job.run_task(0, {"a": b"1"})
    hadoop.write(job.destination / "_SUCCESS", b"of another job, with a checksum of its own")
    checksum = job.destination / "._SUCCESS.crc"
    assert checksum.exists()
    commit(job)
    assert not checksum.exists()
    assert json.loads(hadoop.read(job.destination / "_SUCCESS"))["jobId"] == job.job_id


def test_files_that_java_wrote_with_checksums_are_readable_after_our_commit(
    hadoop: Hadoop, job: HadoopJob
) -> None:
    root = job.setup_task(0)
    hadoop.write(root / "d é" / "part-0", b"through Hadoop")
    assert (root / "d é" / ".part-0.crc").exists()
    job.commit_task(0)
    assert list(hadoop.load_manifest(job.manifest(0)).files) == [str(job.destination / "d é" / "part-0")]
    commit(job)
    assert hadoop.read(job.destination / "d é" / "part-0") == b"through Hadoop"


@pytest.mark.parametrize("committer", ["java", "ours"])
def test_a_checksum_that_outlived_its_file_does_not_spoil_a_new_one(
    hadoop: Hadoop, job: HadoopJob, committer: str
) -> None:
    hadoop.write(job.destination / "part-0", b"of an earlier job, removed without its checksum")
    (job.destination / "part-0").unlink()
    job.run_task(0, {"part-0": b"new"})
    if committer == "java":
        job.commit_job()
    else:
        commit(job)
    assert not (job.destination / ".part-0.crc").exists()
    assert hadoop.read(job.destination / "part-0") == b"new"
