"""Whole commits: what stops them, what they leave, and what two committers at once do."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Thread

import pytest
from msgspec import structs

import ray_committer
from ray_committer import CommitOptions, Outcome, testing
from ray_committer.errors import (
    CommitCancelledError,
    CommitterBusyError,
    PackChangedError,
    RayCommitterError,
    RayLostError,
    ValidationError,
    mark,
)
from ray_committer.events import CommitStarted, Event, FilesRenamed, Notice, StageEnded, StageStarted
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.iostatistics import count
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import decode_success
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.context import JobContext
from ray_committer.stores.guarded import GuardedStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, OTHER_JOB, do_at, manifest_path, state_of, with_job
from tests.stages.support import context as context_of


def test_nothing_is_deleted_before_the_job_is_committed(store, write_job):
    job = write_job({0: {"a": "x"}})

    deletions: list[StoreCall] = []

    def check(call: StoreCall) -> None:
        if call.operation.startswith("delete"):
            deletions.append(call)
            seen = read_state(store, job)
            assert seen.phase is Phase.COMMITTED if seen else not Path(job.directory).exists()

    run_commit(WrappedStore(store, before=check), job)
    assert deletions


def test_two_buckets_with_one_path_are_told_apart_in_whatever_is_said():
    for bucket in ("one", "two"):
        memory, events = MemoryStore(authority=bucket), list[Event]()
        testing.write_job(memory, OTHER_JOB, {0: {"b": b"x"}})
        assert (
            run_commit(memory, OTHER_JOB, on_event=events.append).destination
            == f"memory://{bucket}/table"
        )
        assert {one.destination for one in events if isinstance(one, CommitStarted)} == {
            f"memory://{bucket}/table"
        }
        testing.write_job(memory, JOB, {0: {"a": b"x"}})
        memory.delete_file(f"{JOB.task_attempt('attempt_job_1_m_000000_0')}/a")
        with pytest.raises(RayCommitterError) as caught:
            run_commit(memory, JOB, on_event=events.append)
        failed = [one.error for one in events if isinstance(one, StageEnded) and one.error]
        assert {text.partition("/table")[0] for text in (str(caught.value), *failed)} == {
            f"memory://{bucket}"
        }
        context_of(memory, emit=events.append).notice(f"{mark('/table/p=1')}: is read by a person")
        assert events[-1] == Notice(f"memory://{bucket}/table/p=1: is read by a person")


def test_without_clean_up_the_job_stays_committed_and_can_be_validated(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    run_commit(store, job, CommitOptions(cleanup=False))
    assert state_of(store, job).phase is Phase.COMMITTED
    assert ray_committer.list_jobs(str(dest))[0].state == "committed"
    assert ray_committer.validate_job(str(dest)).compared == 1
    (dest / "a").write_text("longer")
    with pytest.raises(ValidationError, match="a: has 6 bytes, its manifest says 1"):
        ray_committer.validate_job(str(dest))


def test_a_foreign_clean_up_after_the_record_says_what_is_gone(write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    shutil.rmtree(job.packs)
    with pytest.raises(PackChangedError, match="gone, perhaps because another job's") as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("event", "stage", "begun"),
    [
        (StageStarted(names.LOAD_MANIFESTS), names.LOAD_MANIFESTS, False),
        (StageStarted(names.RENAME_FILES), names.RENAME_FILES, True),
        (FilesRenamed(10, 30, bytes_done=10, bytes_total=30), names.RENAME_FILES, True),
    ],
)
@pytest.mark.usefixtures("small_shards")
def test_a_cancelled_commit_is_reported(write_job, dest, tmp_path, event: Event, stage, begun: bool):
    write_job({0: {f"f{number:02d}": "x" for number in range(30)}})
    token, reports = ray_committer.CancelToken(), list[ray_committer.CommitReport]()

    def cancel(found: Event) -> None:
        if found == event:
            token.cancel()

    with pytest.raises(CommitCancelledError):
        ray_committer.commit_job(
            str(dest),
            executor="inline",
            options=CommitOptions(summary_directory=str(tmp_path / "reports")),
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
    assert ray_committer.commit_job(str(dest)).files == 30


def long_ago(store, job: JobAttempt) -> CommitResult:
    """Commit as a process whose last sign of life is so old that others think it dead."""
    return commit_job(context_of(store, job=job), read_job(store, job))


def test_two_committers_at_once_are_harmless(store, write_job, dest: Path, tree):
    """The second one runs whole at every single store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y", "c": "z"}
    number, codes = 0, set[int]()
    while True:
        number += 1
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: files, 1: {}})
        countdown = iter(range(number))
        ran = []

        def other_runs(call: StoreCall, countdown=countdown, ran=ran, job=job) -> None:
            if next(countdown, None) is None and not ran:
                ran.append(run_commit(store, job))

        try:
            long_ago(WrappedStore(store, before=other_runs), job)
        except RayCommitterError as e:
            codes.add(e.exit_code)
            ray_committer.commit_job(str(dest), "job_1")
        assert tree() == files
        assert not (dest / "_temporary").exists(), number
        if not ran:
            break
    assert number > 15
    assert codes <= {3}


@pytest.mark.parametrize("phase", ["declared", "recorded"])
def test_a_second_committer_waits_for_one_that_is_at_work_and_then_gives_up(
    store, write_job, tree, phase: str
):
    job = write_job({0: {"a": "x"}})
    errors: list[CommitterBusyError] = []

    def other() -> None:
        with pytest.raises(CommitterBusyError, match="wait for it, then run the same command") as caught:
            run_commit(store, job, CommitOptions(conflict_wait_seconds=0.2))
        errors.append(caught.value)

    run_commit(WrappedStore(store, after=do_at("advance", other, phase)), job)
    assert [error.exit_code for error in errors] == [4]
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("sees", ["the clean-up's end", "the decision"])
def test_a_second_committer_that_waited_says_who_has_committed(store, write_job, tree, sees: str):
    job = write_job({0: {"a": "x"}})
    reports: list[CommitResult] = []
    second = Thread(target=lambda: reports.append(run_commit(store, job)))

    def begin() -> None:
        second.start()
        second.join(0.2)
        assert second.is_alive()

    def hold_up(call: StoreCall) -> None:
        if (
            sees == "the decision"
            and call.paths[0] == job.directory
            and call.operation == "move_directory"
        ):
            second.join()

    wrapped = WrappedStore(store, before=hold_up, after=do_at("advance", begin, "recorded"))
    first = run_commit(wrapped, job)
    second.join()
    assert (first.outcome, first.moved) == (Outcome.COMMITTED, 1)
    assert [(report.outcome, report.moved) for report in reports] == [(Outcome.ALREADY_COMMITTED, 0)]
    assert any("committed by another process" in notice for notice in reports[0].notices)
    assert tree() == {"a": "x"}


def test_once_committed_neither_a_cancel_nor_a_lost_cluster_makes_it_a_failure(
    store, write_job, dest: Path, tree
):
    token = ray_committer.CancelToken()
    job = write_job({0: {"a": "x"}})

    def lose(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise RayLostError("simulated")
        if call.operation == "advance" and call.paths[-1].startswith("committed"):
            token.cancel()

    wrapped = WrappedStore(store, before=lose)
    executor = InlineExecutor(lambda permits: Worker(wrapped, job, permits, in_driver=True))
    guarded = GuardedStore(wrapped, executor.permits)
    context = JobContext(guarded, job, CommitOptions(), executor, cancelled=token)
    report = commit_job(context, read_job(store, job))
    assert report.outcome is Outcome.COMMITTED
    assert (dest / "_SUCCESS").exists()
    assert any("not cleaned up" in notice for notice in report.notices)


def test_manifests_that_are_loaded_again_count_once_in_the_statistics():
    store = with_job({0: {"a": b"x"}})
    path = manifest_path(0)
    found = decode_manifest(store.read(path), path)
    again = encode_manifest(structs.replace(found, iostatistics=count("committer_task_file_count", 1)))
    store.write(path, again)
    moved: list[StoreCall] = []

    def save_again(call: StoreCall) -> None:
        if call.operation == "move_directory" and call.paths[0] == JOB.manifests and not moved:
            moved.append(call)
            store.delete_file(path)
            store.write(path, again)

    run_commit(WrappedStore(store, before=save_again), JOB)
    success = decode_success(store.read(JOB.success), JOB.success)
    assert moved
    assert success is not None
    assert success.iostatistics is not None
    assert success.iostatistics.counters["committer_task_file_count"] == 1
