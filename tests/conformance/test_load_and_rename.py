"""Loading two hundred manifests, and renames that fail: what is counted, what is kept, what is said.

Source: Hadoop TestLoadManifestsStage and TestRenameStageFailure, by scenario.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, ManifestError
from ray_committer.job_files.job_state import require_state
from ray_committer.protocol.manifest import STAMP, DirEntry, FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.testing import StoreCall, WrappedStore, run_commit
from tests.doubles import recorded

TASKS, FILES = 200, 10


@pytest.fixture
def large_job(store, write_job) -> JobAttempt:
    """200 manifests of 10 files each in 10 directories; the files themselves are not there."""
    job = write_job({})
    stamp = require_state(store, job).state.stamp
    for task in range(TASKS):
        attempt = f"attempt_1_m_{task:06d}_0"
        root = job.task_attempt(attempt)
        manifest = TaskManifest(
            job_id="job_1",
            task_id=f"task_1_m_{task:06d}",
            task_attempt_id=attempt,
            task_attempt_dir=f"file:{root}",
            files=[
                FileEntry(
                    s=f"file:{root}/p={n}/f{task}", d=f"file:{job.destination}/p={n}/f{task}", z=100 * n
                )
                for n in range(FILES)
            ],
            directories=[DirEntry(f"file:{job.destination}/p={n}", l=1) for n in range(FILES)],
            extra_data={STAMP: stamp},
        )
        Path(job.manifest(f"task_1_m_{task:06d}")).write_bytes(encode_manifest(manifest))
    return job


def test_two_hundred_manifests_are_counted_and_their_directories_merged(large_job, dest: Path):
    plan = ray_committer.plan_job(str(dest))
    assert (plan.manifests, plan.files, plan.directories) == (TASKS, TASKS * FILES, FILES)
    assert plan.bytes == TASKS * sum(100 * n for n in range(FILES))
    assert plan.state == "running"


def test_two_hundred_manifests_are_recorded_once_each_with_their_sizes_and_attempts(
    store, large_job, dest
):
    ray_committer.record_job(str(dest), executor="threads")
    refs = recorded(store, large_job).manifests
    assert [ref.task_attempt_id for ref in refs] == [f"attempt_1_m_{n:06d}_0" for n in range(TASKS)]
    assert {ref.files for ref in refs} == {FILES}
    assert {ref.bytes for ref in refs} == {4500}
    assert [ref.size for ref in refs] == [
        Path(large_job.frozen, ref.name).stat().st_size for ref in refs
    ]


def test_only_names_of_manifests_are_loaded(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    for name in ("attempt_9-manifest.json.tmp", ".task_9-manifest.json.crc", "notes.json"):
        Path(job.manifests, name).write_text("no manifest")
    assert ray_committer.commit_job(str(dest)).manifests == 1
    assert tree() == {"a": "x"}


def failed_report(store, job: JobAttempt, directory: Path) -> SuccessData:
    """Commit a job of 100 files whose file number 5 cannot be renamed; the report of that run."""

    def fail(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/f005"):
            raise PermissionError(13, "Simulated failure of rename")

    options = CommitOptions(summary_directory=str(directory), shard_files=10)
    with pytest.raises(CommitStateUnknownError, match=r"f005.*Simulated failure of rename"):
        run_commit(WrappedStore(store, before=fail), job, options)
    path = directory / "summary-job_1.json"
    report = decode_success(path.read_bytes(), str(path))
    assert report is not None
    return report


def test_the_report_of_a_failed_rename_names_the_stage_and_counts_the_failure(
    store, write_job, dest: Path, tmp_path: Path, tree
):
    job = write_job({0: {f"f{number:03d}": "x" for number in range(100)}})
    report = failed_report(store, job, tmp_path / "reports")
    assert report.success is False
    assert not report.filenames
    assert report.diagnostics is not None
    assert report.diagnostics["stage"] == "job_stage_rename_files"
    assert "f005" in report.diagnostics["exception"]
    assert report.iostatistics is not None
    assert report.iostatistics.counters["job_stage_rename_files.failures"] == 1
    assert 0 < len(tree()) < 100


def test_a_missing_source_is_found_before_anything_is_moved(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x", "b": "y", "c": "z"}})
    source = next(Path(job.tasks).rglob("b"))
    kept = source.with_name("kept elsewhere")
    source.rename(kept)
    with pytest.raises(
        ManifestError, match=r"names 1 files that are missing or changed.*/b: is not there"
    ):
        ray_committer.commit_job(str(dest))
    assert ray_committer.list_jobs(str(dest))[0].state == "running"
    assert tree() == {}
    kept.rename(source)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y", "c": "z"}


def test_a_missing_source_stops_the_commit_and_nothing_is_deleted(store, write_job, dest: Path, tree):
    """It goes when the record stands."""
    job = write_job({0: {"a": "x", "b": "y", "c": "z"}})
    source = next(Path(job.tasks).rglob("b"))
    kept = source.with_name("kept elsewhere")
    ray_committer.record_job(str(dest))
    shutil.copy2(source, kept)
    source.unlink()
    with pytest.raises(CommitStateUnknownError, match=r"/b: is gone and .*/b is not there either"):
        ray_committer.commit_job(str(dest))
    assert ray_committer.list_jobs(str(dest))[0].state == "recorded"
    assert not (dest / "_SUCCESS").exists()
    shutil.copy2(kept, source)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y", "c": "z"}


def test_a_directory_in_the_place_of_a_file_is_a_conflict_and_is_kept(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    (dest / "a").mkdir()
    (dest / "a" / "inside").write_text("foreign")
    with pytest.raises(CommitConflictError, match="/a: is there already"):
        ray_committer.commit_job(str(dest))
    assert tree() == {"a/inside": "foreign"}
    shutil.rmtree(dest / "a")
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_renames_that_time_out_before_or_after_they_happened_are_recovered(
    store, write_job, dest: Path, tree, when: str
):
    files = {f"p={n % 2}/f{n}": str(n) for n in range(9)}
    job = write_job({0: files})
    tried: Counter[str] = Counter()

    def time_out(call: StoreCall) -> None:
        name = call.paths[-1]
        tried[name] += call.operation == "rename"
        if call.operation == "rename" and name.endswith("3") and tried[name] == 1:
            raise TimeoutError("ErrorCode=OperationTimedOut")

    report = run_commit(WrappedStore(store, **{when: time_out}), job)
    proved = {"modification time and size": 1} if when == "after" else {}
    assert (report.moved, report.proved) == (9 - len(proved), proved)
    assert tree() == files
