"""Commit point, marker, validation, clean-up and abort: what is left when, and for whom."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.commit_report import CommitReport
from ray_committer.errors import (
    AmbiguousJobError,
    CommitAbortedError,
    CommitCancelledError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitterBusyError,
    JobNotFoundError,
    ManifestChangedError,
    MissingManifestsError,
    PathError,
    RayCommitterError,
    RayLostError,
    StoreRefusedError,
    ValidationError,
)
from ray_committer.events import Event, FilesRenamed, StageStarted
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.success import decode_success
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import list_job_directories, read_attempt_state
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.local import LocalStore
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit


def test_clean_up_leaves_other_jobs_alone(store, write_job, dest: Path, tree):
    first = write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "y"}}, job_id="job_2")
    run_commit(store, first)
    assert not Path(first.job_directory).exists()
    assert ray_committer.commit_job(str(dest)).job_id == "job_2"
    assert tree() == {"a": "x", "b": "y"}
    assert not (dest / "_temporary").exists()


def test_a_failed_clean_up_does_not_fail_the_committed_job(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def fail(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise OSError("simulated")

    report = run_commit(WrappedStore(store, before=fail), job)
    assert report.outcome is Outcome.COMMITTED
    assert any("not cleaned up" in notice for notice in report.notices)
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.COMMITTED
    assert not (dest / "_temporary").exists()
    assert tree() == {"a": "x"}


def test_nothing_is_deleted_before_the_commit_point(store, write_job):
    job = write_job({0: {"a": "x"}})

    def check(call: StoreCall) -> None:
        if call.operation.startswith("delete"):
            assert Path(job.commit_point).exists()

    run_commit(WrappedStore(store, before=check), job)


def test_without_clean_up_the_job_stays_committed_and_can_be_validated(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    run_commit(store, job, CommitOptions(cleanup=False))
    assert Path(job.commit_point).exists()
    assert ray_committer.list_jobs(str(dest))[0].state == "committed"
    assert ray_committer.validate_job(str(dest)) == 1
    (dest / "a").write_text("longer")
    with pytest.raises(ValidationError, match="a: has 6 bytes, its manifest says 1"):
        ray_committer.validate_job(str(dest))


def test_the_marker_names_the_job_and_counts_what_was_moved(store, write_job, dest: Path):
    files = {f"f{number:03d}": "xx" for number in range(150)}
    run_commit(store, write_job({0: files, 1: {"g": "y"}}))
    success = decode_success((dest / "_SUCCESS").read_bytes(), "_SUCCESS")
    assert success is not None
    assert success.success
    assert success.job_id == "job_1"
    assert success.filenames is not None
    assert len(success.filenames) == 100
    assert success.iostatistics is not None
    assert success.iostatistics.counters["committer_files_committed"] == 151
    assert success.iostatistics.counters["committer_bytes_committed"] == 301


def test_no_marker_is_written_when_that_is_switched_off(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}, mark_success=False), CommitOptions(mark_success=False))
    assert not (dest / "_SUCCESS").exists()


def test_a_marker_of_another_job_proves_nothing(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}))
    with pytest.raises(JobNotFoundError, match="no job job_2"):
        ray_committer.commit_job(str(dest), "job_2")


def test_a_source_that_changed_after_its_manifest_is_found_before_the_commit_point(
    store, write_job, dest: Path
):
    job = write_job({0: {"p/a": "x", "p/b": "y"}})
    source = next(Path(job.tasks).rglob("b"))
    source.write_text("z")
    os.utime(source, (1, 1))
    with pytest.raises(ValidationError, match="p/b: was changed after its manifest") as caught:
        run_commit(store, job)
    assert caught.value.exit_code == 5
    assert Path(job.commit_record).exists()
    assert not (dest / "_SUCCESS").exists()


def test_a_file_that_vanished_after_its_rename_is_found(store, write_job, dest: Path):
    job = write_job({0: {"p/a": "x"}})

    def remove(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/a"):
            os.unlink(call.paths[1])

    with pytest.raises(ValidationError, match="p/a: is missing"):
        run_commit(WrappedStore(store, after=remove), job)


def test_abort_deletes_the_job_and_only_that(store, write_job, dest: Path, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "x"}}, job_id="job_2")
    assert ray_committer.abort_job(str(dest), "job_1") is True
    assert Path(other.manifests).is_dir()
    assert ray_committer.abort_job(str(dest), "job_2") is True
    assert not (dest / "_temporary").exists()
    assert tree() == {}


def test_abort_after_the_record_deletes_nothing_and_names_the_command(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    with pytest.raises(CommitRecordExistsError, match="ray-committer commit"):
        ray_committer.abort_job(str(dest))
    assert next(Path(job.tasks).rglob("a")).read_text() == "x"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


def test_a_file_where_a_directory_must_go_is_refused_by_name(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/q=2/a": "x"}})
    (dest / "p=1").write_text("in the way")
    with pytest.raises(CommitConflictError, match="p=1: is a file where the job needs a directory"):
        run_commit(store, job)
    assert (dest / "p=1").read_text() == "in the way"
    (dest / "p=1").unlink()
    ray_committer.commit_job(str(dest))
    assert tree() == {"p=1/q=2/a": "x"}


def test_a_blocking_file_is_deleted_only_when_that_is_allowed(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/q=2/a": "x"}})
    (dest / "p=1").write_text("in the way")
    run_commit(store, job, CommitOptions(delete_blocking_files=True))
    assert tree() == {"p=1/q=2/a": "x"}


def test_two_jobs_or_two_attempts_must_be_told_apart(write_job, dest: Path, store, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}}, job_id="job_2")
    with pytest.raises(AmbiguousJobError, match=r"job_1, job_2.*--job-id") as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 2
    setup_job(store, new_job_attempt(str(dest), "job_2", 1))
    with pytest.raises(AmbiguousJobError, match="--attempt"):
        ray_committer.commit_job(str(dest), "job_2")
    assert tree() == {}
    options = CommitOptions(job_attempt=0)
    assert ray_committer.commit_job(str(dest), "job_2", options=options).moved == 1


def test_a_newer_attempt_is_refused_while_an_older_ones_commit_has_begun(write_job, dest: Path, store):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    setup_job(store, new_job_attempt(str(dest), "job_1", 1))
    with pytest.raises(CommitRecordExistsError, match="--attempt 0"):
        ray_committer.commit_job(str(dest), "job_1", options=CommitOptions(job_attempt=1))


def test_attempt_directories_are_numbers_however_they_are_padded(write_job, dest: Path):
    job = write_job({0: {}})
    os.rename(job.directory, Path(job.job_directory) / "007")
    assert ray_committer.list_jobs(str(dest))[0].job_attempt == 7


def test_a_foreign_clean_up_is_told_apart_from_a_job_that_never_was(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    shutil.rmtree(dest / "_temporary")
    with pytest.raises(MissingManifestsError, match="another job's clean-up"):
        run_commit(store, job, CommitOptions(expected_tasks=1))
    with pytest.raises(JobNotFoundError):
        run_commit(store, job)


def test_a_foreign_clean_up_after_the_record_says_what_is_gone(write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    shutil.rmtree(job.manifests)
    with pytest.raises(ManifestChangedError, match="gone; another job's clean-up") as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 3


def test_a_record_of_a_later_version_is_not_touched(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    record = json.loads(Path(job.commit_record).read_bytes())
    Path(job.commit_record).write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(RayCommitterError, match="version 2"):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


@pytest.mark.parametrize("fails", [False, True])
def test_a_summary_report_is_written_whatever_happened(store, write_job, dest, tmp_path, fails: bool):
    job = write_job({0: {"a": "x"}, 1: {"a" if fails else "b": "y"}})
    options = CommitOptions(summary_directory=str(tmp_path / "reports"))
    if fails:
        with pytest.raises(RayCommitterError):
            run_commit(store, job, options)
    else:
        run_commit(store, job, options)
    path = tmp_path / "reports" / "summary-job_1.json"
    report = decode_success(path.read_bytes(), str(path))
    assert report is not None
    assert report.success is not fails
    assert report.diagnostics is not None
    assert report.diagnostics["stage"] == ("job_stage_preflight" if fails else "committer_commit_job")
    assert ("exception" in report.diagnostics) is fails


@pytest.mark.parametrize(
    ("event", "stage", "begun"),
    [
        (StageStarted(names.LOAD_MANIFESTS), names.LOAD_MANIFESTS, False),
        (StageStarted(names.RENAME_FILES), names.RENAME_FILES, True),
        (FilesRenamed(8, 30, bytes_done=8, bytes_total=30), names.RENAME_FILES, True),
    ],
)
def test_a_cancelled_commit_is_reported(write_job, dest, tmp_path, event: Event, stage, begun: bool):
    write_job({0: {f"f{number:02d}": "x" for number in range(30)}})
    token, reports = ray_committer.CancelToken(), list[CommitReport]()

    def cancel(found: Event) -> None:
        if found == event:
            token.cancel()

    with pytest.raises(CommitCancelledError):
        ray_committer.commit_job(
            str(dest),
            executor="inline",
            options=CommitOptions(summary_directory=str(tmp_path / "reports"), shard_files=10),
            on_event=cancel,
            on_report=reports.append,
            cancel=token,
        )
    assert [report.outcome for report in reports] == [Outcome.FAILED]
    assert "was cancelled" in (reports[0].error or "")
    assert (reports[0].files == 30) is begun
    path = tmp_path / "reports" / "summary-job_1.json"
    summary = decode_success(path.read_bytes(), str(path))
    assert summary is not None
    assert not summary.success
    assert summary.diagnostics is not None
    assert "was cancelled" in summary.diagnostics["exception"]
    assert summary.diagnostics["stage"] == stage


def test_two_committers_at_once_are_harmless(store, write_job, dest: Path, tree):
    """The second one runs whole at every single store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y", "c": "z"}
    number = 0
    while True:
        number += 1
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: files, 1: {}})
        countdown = iter(range(number))
        ran = []

        def other_runs(call: StoreCall, countdown=countdown, ran=ran, job=job) -> None:
            if next(countdown, None) is None and not ran:
                ran.append(run_commit(store, job, nonce="the other committer"))

        try:
            run_commit(WrappedStore(store, before=other_runs), job, nonce="the first committer")
        except RayCommitterError:
            ray_committer.commit_job(str(dest))
        assert tree() == files
        assert not (dest / "_temporary").exists(), number
        if not ran:
            break
    assert number > 15


def test_a_committer_that_was_overtaken_after_its_crash_is_harmless(store, write_job, dest, tree):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/b"):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), job)
    run_commit(store, job, nonce="another")
    assert tree() == {"a": "x", "b": "y"}


@pytest.mark.parametrize("first", ["commit", "abort"])
def test_a_commit_and_an_abort_at_once_cannot_both_happen(store, write_job, dest, tree, first: str):
    """The second one runs whole at every store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y"}
    for number in range(1, 40):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: files, 1: {}})
        commit, abort = partial(run_commit, job=job), partial(run_abort, job=job)
        runs = {"commit": (commit, abort), "abort": (abort, commit)}[first]
        done: list[object] = []
        countdown = iter(range(number))

        def other(call: StoreCall, countdown=countdown, runs=runs, done=done) -> None:
            if next(countdown, None) is None and not done:
                done.append("the other ran")
                with contextlib.suppress(RayCommitterError):
                    done.append(runs[1](store))

        with contextlib.suppress(RayCommitterError):
            runs[0](WrappedStore(store, before=other))
        if not done:
            break
        with contextlib.suppress(JobNotFoundError, CommitAbortedError):
            ray_committer.commit_job(str(dest), "job_1")
        with contextlib.suppress(CommitRecordExistsError):
            ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() in (files, {}), number
        assert (dest / "_SUCCESS").exists() == bool(tree())
        assert not (dest / "_temporary").exists()
    assert number > 4


def run_abort(store, job) -> bool:
    executor = InlineExecutor(lambda: Worker(store, job, in_driver=True))
    context = JobContext(GuardedStore(store, executor.permits), job, CommitOptions(), executor)
    return abort_job(context, nonce="the abort")


def test_an_abort_that_crashed_is_finished_by_an_abort_and_by_nothing_else(store, write_job, dest, tree):
    for number in range(1, 9):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
        countdown = iter(range(number))

        def crash(call: StoreCall, countdown=countdown) -> None:
            if next(countdown, None) is None:
                raise SimulatedCrash(call)

        with contextlib.suppress(SimulatedCrash):
            run_abort(WrappedStore(store, before=crash), job)
        if Path(job.commit_record).exists():
            with pytest.raises(CommitAbortedError, match="ray-committer abort"):
                ray_committer.commit_job(str(dest), "job_1")
        ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() == {}
        assert not (dest / "_temporary").exists()


def test_an_older_attempt_is_refused_while_a_newer_ones_commit_has_begun(write_job, dest, store):
    write_job({0: {"a": "x"}})
    setup_job(store, new_job_attempt(str(dest), "job_1", 1))
    with ray_committer.task_attempt(str(dest), "job_1", 0, options=CommitOptions(job_attempt=1)):
        pass
    ray_committer.record_job(str(dest), "job_1", options=CommitOptions(job_attempt=1))
    with pytest.raises(CommitRecordExistsError, match="--attempt 1"):
        ray_committer.commit_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "/etc"])
def test_a_job_id_that_is_no_name_is_refused(dest: Path, job_id: str):
    (dest / "00").mkdir(parents=True)
    (dest / "_temporary").mkdir()
    with pytest.raises(PathError, match="job id"):
        ray_committer.abort_job(str(dest), job_id, options=CommitOptions(job_attempt=0))
    assert (dest / "00").is_dir()


def test_once_committed_neither_a_cancel_nor_a_lost_cluster_makes_it_a_failure(
    store, write_job, dest: Path, tree
):
    token = ray_committer.CancelToken()
    job = write_job({0: {"a": "x"}})

    def lose(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise RayLostError("simulated")
        if call.paths[-1] == job.commit_point:
            token.cancel()

    wrapped = WrappedStore(store, before=lose)
    worker = Worker(wrapped, job, in_driver=True)
    executor = InlineExecutor(lambda: worker)
    guarded = GuardedStore(wrapped, executor.permits)
    context = JobContext(guarded, job, CommitOptions(), executor, cancelled=token)
    report = commit_job(context, read_attempt_state(store, job), nonce="n")
    assert report.outcome is Outcome.COMMITTED
    assert (dest / "_SUCCESS").exists()
    assert any("not cleaned up" in notice for notice in report.notices)


def test_an_error_after_the_record_says_to_run_again_whatever_it_was(store, write_job, dest: Path):
    job = write_job({0: {"a": "x", "b": "y"}})

    def refuse(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/b"):
            raise StoreRefusedError("b: is on another file system")

    with pytest.raises(RayCommitterError, match="run the same command to finish") as caught:
        run_commit(WrappedStore(store, before=refuse), job)
    assert caught.value.exit_code == 3


def test_a_job_that_ends_while_jobs_are_listed_is_passed_over(store, write_job, dest: Path):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "y"}}, job_id="job_2")

    def end(call: StoreCall) -> None:
        if call.paths == (other.job_directory,):
            shutil.rmtree(other.job_directory, ignore_errors=True)

    found = list_job_directories(WrappedStore(store, before=end), str(dest))
    assert [job.job_id for job in found] == ["job_1"]


def before_the_write(run) -> WrappedStore:
    """A store on which `run` happens just before the first file is written."""
    ran: list[object] = []

    def hook(call: StoreCall) -> None:
        if call.operation == "write" and not ran:
            ran.append(run())

    return WrappedStore(LocalStore(StoreSpec("file")), before=hook)


def test_an_abort_that_a_record_overtakes_deletes_nothing(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    store = before_the_write(lambda: ray_committer.record_job(str(dest), "job_1"))
    with pytest.raises(CommitRecordExistsError):
        run_abort(store, job)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


def test_a_committer_that_another_overtakes_with_other_manifests_stops(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def overtake() -> None:
        with ray_committer.task_attempt(str(dest), "job_1", 1) as attempt:
            Path(attempt.path("b")).write_text("y")
        ray_committer.record_job(str(dest), "job_1")

    with pytest.raises(CommitterBusyError):
        run_commit(before_the_write(overtake), job)
    assert tree() == {}
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y"}
