"""A task attempt's life: set up, written, scanned, saved; retried, aborted, late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitRecordExistsError, PathError, TaskCommitError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.stages.scan_task_attempt_directory import scan_task_attempt_directory
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.testing import StoreCall, WrappedStore, run_commit


def write_attempt(dest: Path, task: int, attempt: int, name: str, text: str | None) -> None:
    with ray_committer.task_attempt(str(dest), "job_1", task, attempt) as running:
        Path(running.path(name)).touch()
        Path(running.path(name)).write_text(text)  # type: ignore[arg-type]


def test_nothing_is_visible_before_the_job_commits(dest: Path, write_job, tree):
    write_job({0: {"a": "x"}})
    assert tree() == {}


def test_the_last_attempt_of_a_task_wins(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    write_attempt(dest, 0, 0, "first", "1")
    write_attempt(dest, 0, 1, "second", "2")
    assert ray_committer.commit_job(str(dest), "job_1").manifests == 1
    assert tree() == {"second": "2"}


def test_a_failed_attempt_leaves_nothing(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    write_attempt(dest, 0, 0, "good", "1")
    with pytest.raises(TypeError):
        write_attempt(dest, 1, 0, "bad", None)  # fails after it has made its file
    assert len(list((dest / "_temporary/job_1/00/tasks").iterdir())) == 1
    ray_committer.commit_job(str(dest), "job_1")
    assert tree() == {"good": "1"}


def test_a_path_that_leads_out_is_refused(dest: Path):
    ray_committer.setup_job(str(dest), "job_1")
    with (
        pytest.raises(PathError, match=r"\.\."),
        ray_committer.task_attempt(str(dest), "job_1", 0) as running,
    ):
        running.path("../../out")


def test_setting_up_twice_is_refused(dest: Path, store):
    job = new_job_attempt(str(dest), "job_1", 0)
    setup_job(store, job)
    with pytest.raises(TaskCommitError, match="exists already"):
        setup_job(store, job)
    setup_task(store, job, "attempt_1_m_0_0")
    with pytest.raises(TaskCommitError, match="attempt_1_m_0_0: exists already"):
        setup_task(store, job, "attempt_1_m_0_0")


def test_setup_removes_the_marker_of_an_earlier_job_only_if_it_writes_one(dest: Path, store):
    dest.mkdir()
    for number, mark, left in ((1, False, True), (2, True, False)):
        (dest / "_SUCCESS").touch()
        setup_job(store, new_job_attempt(str(dest), f"job_{number}", 0), mark_success=mark)
        assert (dest / "_SUCCESS").exists() is left


def test_a_scan_finds_every_file_and_directory_with_its_evidence(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    (root / "p=1" / "q=é 日%").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "p=1" / "q=é 日%" / "f").write_text("four")
    (root / "top").write_text("")
    files, directories = scan_task_attempt_directory(store, str(root), str(dest))
    assert {(file.d.removeprefix(f"file:{dest}"), file.z) for file in files} == {
        ("/p=1/q=é%20日%25/f", 4),
        ("/top", 0),
    }
    top = next(file for file in files if file.d.endswith("top"))
    assert top.m == (root / "top").stat().st_mtime_ns // 1_000_000
    assert {(entry.d.removeprefix(f"file:{dest}"), entry.l, entry.t) for entry in directories} == {
        ("/empty", 1, 0),
        ("/p=1", 1, 0),
        ("/p=1/q=é%20日%25", 2, 0),
    }


def test_a_missing_attempt_directory_cannot_be_scanned(dest: Path, store, tmp_path: Path):
    with pytest.raises(TaskCommitError, match="run the task again"):
        scan_task_attempt_directory(store, str(tmp_path / "gone"), str(dest))


def save(store, job, attempts: int = 5) -> list[float]:
    slept: list[float] = []
    save_task_manifest(
        store,
        job,
        TaskManifest(files=[]),
        task_id="task_1_m_000000",
        task_attempt_id="attempt_1_m_000000_0",
        attempts=attempts,
        sleep=slept.append,
    )
    return slept


@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("lost_answer", [False, True])
def test_a_manifest_is_saved_in_as_many_tries_as_asked_for(
    dest: Path, store, write_job, operation: str, lost_answer: bool
):
    job = write_job({})
    failures = iter([True, True])

    def fail(call: StoreCall) -> None:
        if call.operation == operation and next(failures, False):
            raise OSError("simulated")

    faulty = WrappedStore(store, **{"after" if lost_answer else "before": fail})
    assert save(faulty, job) == [0.5, 1.0]
    path = job.manifest("task_1_m_000000")
    assert decode_manifest(Path(path).read_bytes(), path).files == []
    assert len(list(Path(job.manifests).iterdir())) == 1


@pytest.mark.parametrize("attempts", [1, 2, 7])
def test_the_number_of_tries_counts(dest: Path, store, write_job, attempts: int):
    job = write_job({})
    writes: list[StoreCall] = []

    def fail(call: StoreCall) -> None:
        if call.operation == "write":
            writes.append(call)
            raise OSError("simulated")

    with pytest.raises(TaskCommitError, match=f"in {attempts} tries"):
        save(WrappedStore(store, before=fail), job, attempts)
    assert len(writes) == attempts


def test_a_task_attempt_that_wakes_after_the_job_is_over_cannot_save_a_manifest(
    dest: Path, store, write_job, tree
):
    job = write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest), "job_1")
    Path(job.task_attempt("attempt_1_m_000000_9")).mkdir(parents=True)
    with pytest.raises(TaskCommitError, match="is over"):
        save(store, job)
    assert ray_committer.commit_job(str(dest), "job_1").outcome == "already committed"
    assert tree() == {"a": "x"}


def test_a_task_cannot_commit_once_the_jobs_commit_has_begun(dest: Path, store, write_job):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), "job_1")
    with pytest.raises(CommitRecordExistsError, match="too late"):
        save(store, job)


def test_a_task_of_a_job_that_was_never_set_up_is_refused(dest: Path):
    with (
        pytest.raises(TaskCommitError, match="call setup_job first"),
        ray_committer.task_attempt(str(dest), "job_1", 0),
    ):
        pytest.fail("the attempt must not start")


def test_an_empty_task_has_a_small_manifest(dest: Path, store, write_job):
    job = write_job({0: {}})
    (manifest,) = Path(job.manifests).iterdir()
    assert manifest.stat().st_size < 1000
    assert json.loads(manifest.read_bytes())["files"] == []
    assert run_commit(store, job).files == 0


def test_setup_warns_of_a_job_whose_commit_never_ended(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), "job_1")
    warnings: list[str] = []
    ray_committer.setup_job(str(dest), "job_2", on_warning=warnings.append)
    assert len(warnings) == 1
    assert "ray-committer commit" in warnings[0]
    assert "job_1" in warnings[0]


def test_a_linked_directory_in_a_task_attempt_is_refused_by_name(dest: Path, store, tmp_path: Path):
    root, elsewhere = tmp_path / "attempt", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    with pytest.raises(TaskCommitError, match="link: is a symbolic link to a directory"):
        scan_task_attempt_directory(store, str(root), str(dest))
