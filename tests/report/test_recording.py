"""Events become a report, in memory that does not grow with the files."""

from __future__ import annotations

import getpass
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import ray_committer
from ray_committer import CancelToken, CommitOptions, CommitReport, Outcome
from ray_committer.errors import CommitCancelledError
from ray_committer.events import (
    Event,
    EventSink,
    FilesRenamed,
    Notice,
    ShardRenamed,
    ShardRequeued,
    StageEnded,
    StageStarted,
    Throttled,
    WorkerLost,
    ignore,
)
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.job_files.read_job import read_job
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.success import decode_success
from ray_committer.report.command import repeat_command
from ray_committer.report.html import report_html
from ray_committer.report.old_job import report_of_success
from ray_committer.report.recording import MOST_LOST, MOST_ROWS, Recording
from ray_committer.report.text import report_json, stage_seconds
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore
from ray_committer.testing import MemoryStore, write_job
from ray_committer.testing.faults import StoreCall, WrappedStore, throttle
from ray_committer.version import __version__
from ray_committer.work.worker import BusyTimes, Worker
from tests.clock import Clock
from tests.opening import moves_a_file, opening

TASKS = {task: {f"p={task}/f{n:03d}": b"x" * n for n in range(50)} for task in range(4)}
BLANK = CommitResult(destination="/t", job_id="j", outcome=Outcome.COMMITTED)


def shard(worker: str, files: int, seconds: float, **more: object) -> ShardRenamed:
    return ShardRenamed(worker, "10.4.2.13", 7, seconds, moved=files, bytes=files, **more)


def test_shards_are_added_up_by_worker_slowest_first():
    clock = Clock(100.0)
    recording = Recording(clock=clock)
    recording.event(shard("worker 0", 100, 1.0, retries=2))
    recording.event(shard("worker 1", 30, 1.0))
    clock.now += 5
    recording.event(shard("worker 0", 100, 1.0, throttled=3, proved={"etag": 50}))
    rows = recording.report(BLANK).worker_rows
    assert [(row.worker, row.shards, row.files) for row in rows] == [
        ("worker 1", 1, 30),
        ("worker 0", 2, 250),
    ]
    assert (rows[1].busy, rows[1].last, rows[1].retries, rows[1].throttled) == (2.0, 5.0, 2, 3)
    assert rows[1].files_per_second == 125


def test_stages_have_a_begin_and_an_error():
    clock = Clock(100.0)
    recording = Recording(clock=clock)
    clock.now += 2
    recording.event(StageStarted(names.RENAME_FILES))
    clock.now += 3
    recording.event(StageEnded(names.RENAME_FILES, 3.0, "no"))
    (row,) = recording.report(BLANK).stages
    assert (row.stage, row.began, row.seconds, row.error) == (names.RENAME_FILES, 2.0, 3.0, "no")


def test_a_span_of_throttling_is_the_last_that_was_told_of_it():
    clock = Clock(100.0)
    recording = Recording(clock=clock)
    clock.now += 10
    recording.event(Throttled(4.0, 1.0, 5, before=100, lowest=85, number=0, rate=85))
    clock.now += 10
    recording.event(Throttled(14.01, 9.0, 8, 100, 40, recovered_seconds_ago=2, number=0, rate=90))
    recording.event(Throttled(1.0, 0.0, 1, before=90, lowest=80, number=1, rate=90))
    first, second = recording.report(BLANK).throttled_spans
    assert (first.began, first.last, first.refused, first.lowest) == (6.0, 11.0, 8, 40)
    assert (first.recovered, first.end, second.recovered) == (18.0, 90, None)


def test_what_is_kept_is_bounded_and_what_was_left_out_is_told():
    recording = Recording()
    for number in range(MOST_ROWS + 50):
        recording.event(shard(f"worker {number}", 1000 + number, 1.0))
    for number in range(MOST_LOST + 3):
        recording.event(WorkerLost(f"worker {number}", "", 7, "died"))
        recording.event(ShardRequeued(f"worker {number}"))
    for _ in range(19_750):
        recording.event(shard("worker 0", 1, 0.01))
    report = recording.report(BLANK)
    assert len(report.worker_rows) == MOST_ROWS
    assert report.worker_rows[0].worker == "worker 0"  # the slowest is kept
    assert report.worker_rows[0].lost
    assert len(report.lost_workers) == MOST_LOST
    assert report.dropped == {"worker_rows": 50, "lost_workers": 3}
    assert report.shards_requeued == 53
    assert len(msgspec.json.encode(report)) < 100_000


def test_shards_at_once_are_busy_once():
    busy = BusyTimes()
    busy.begin("w", 0.0)
    busy.begin("w", 4.0)
    told = [busy.end("w", 6.0)]
    told.append(busy.end("w", 10.0))
    busy.begin("w", 50.0)
    busy.begin("other", 50.0)
    told += [busy.end("w", 51.0), busy.end("other", 52.0)]
    assert told == [6.0, 4.0, 1.0, 2.0]


@pytest.mark.usefixtures("small_shards")
def test_a_commit_reports_what_its_threads_did(write_job, dest: Path):
    write_job({task: dict.fromkeys(files, "x") for task, files in TASKS.items()})
    options = CommitOptions(threads=3)
    report = ray_committer.commit_job(str(dest), executor="threads", options=options)
    assert sum(row.files for row in report.worker_rows) == 200
    assert sum(row.shards for row in report.worker_rows) >= 20
    (row,) = report.worker_rows  # they share each shard
    assert row.worker == "the driver"
    assert 0 < row.busy <= report.seconds
    assert report.workers == 3
    assert report.files_at[-1][1] == 200
    began = [row.began for row in report.stages if row.stage != names.COMMIT_JOB]
    assert began == sorted(began)
    assert report.seconds >= report.stage_seconds[names.COMMIT_JOB]
    assert report.command == f"ray-committer commit {dest} --job-id job_1"


def test_the_stages_add_up_to_the_time_of_the_run(write_job, dest: Path):
    """On a store that has to be waited for, little is done between the stages."""
    write_job({task: dict.fromkeys(files, "x") for task, files in TASKS.items()})
    with opening(before=lambda _: time.sleep(0.002)):
        begin = time.monotonic()
        report = ray_committer.commit_job(str(dest), executor="inline")
        elapsed = time.monotonic() - begin
    *stages, (_, other), (last, total) = stage_seconds(report)
    assert [name for name, _ in stages][:2] == ["find_job", "load_manifests"]
    assert (last, total) == ("total", report.seconds)
    assert sum(seconds for _, seconds in stages) + other == pytest.approx(total)
    assert 0 <= other < 0.15 * total
    assert 0.95 * elapsed < total <= elapsed


def test_a_report_says_who_ran_what_when_and_where(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    before = datetime.now(UTC).replace(microsecond=0)
    options = CommitOptions(threads=3, mode="append", summary_directory=str(tmp_path), retry_seconds=9.0)
    report = ray_committer.commit_job(str(dest), executor="threads", options=options)
    began, ended = map(datetime.fromisoformat, (report.started_at, report.ended_at))
    assert before <= began <= ended <= datetime.now(UTC)
    assert report.started_at.endswith("Z")
    assert (report.host, report.user) == (platform.node(), getpass.getuser())
    assert report.versions == {"ray_committer": __version__, "Python": platform.python_version()}
    expected = {"summary_directory": str(tmp_path), "threads": "3", "retry_seconds": "9"}
    assert report.options == expected
    summary = str(tmp_path / "summary-job_1.json")
    expected = {"destination": str(dest), "_SUCCESS": str(dest / "_SUCCESS"), "summary": summary}
    assert report.links == expected
    assert all(Path(path).exists() for path in report.links.values())
    again = ray_committer.commit_job(str(dest), options=CommitOptions(mark_success=False))
    assert again.links == {"destination": str(dest)}


@pytest.mark.usefixtures("small_shards")
def test_the_report_of_a_second_run_says_what_was_proved_and_how(write_job, dest: Path):
    write_job({task: dict.fromkeys(files, "x") for task, files in TASKS.items()})
    token = CancelToken()

    def stop(event: Event) -> None:
        if isinstance(event, FilesRenamed):
            token.cancel()

    failed: list[CommitReport] = []
    with pytest.raises(CommitCancelledError):
        ray_committer.commit_job(
            str(dest),
            executor="inline",
            on_event=stop,
            cancel=token,
            on_report=failed.append,
        )
    assert failed[0].findings[0].startswith("It stopped in the stage rename_files with 10 of 200 files")
    report = ray_committer.commit_job(str(dest), executor="inline")
    assert report.findings == [
        "10 renames were found done (moved by an earlier run), proved by modification time and size, "
        "which a rename keeps."
    ]
    success = json.loads((dest / "_SUCCESS").read_text())
    assert success["iostatistics"]["counters"]["commit_file_rename_recovered"] == 10


def committed(store: StoreOperations, listen: EventSink = ignore) -> CommitReport:
    """The report of a commit on a store object by four threads, recorded as the API does."""
    job = new_job_attempt("/bucket/table", "job_1", 0)
    executor = ThreadsExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True), RateLimit(2000), threads=4
    )
    recording = Recording()
    context = JobContext(
        GuardedStore(store, executor.permits),
        job,
        CommitOptions(summary_directory="/bucket/reports"),
        executor,
        recording.before(listen),
    )
    try:
        result = commit_job(context, read_job(context.store, job))
    finally:
        executor.close()
    return recording.report(result)


@pytest.mark.usefixtures("small_shards")
def test_a_commit_that_was_throttled_says_when_and_what_the_limiter_did():
    store, refused = MemoryStore(), [0]
    write_job(store, new_job_attempt("/bucket/table", "job_1", 0), TASKS)

    def refuse(call: StoreCall) -> None:
        if moves_a_file(call) and refused[0] < 5:
            refused[0] += 1
            throttle(0, 10**9)(call)

    events: list[Event] = []
    report = committed(WrappedStore(store, before=refuse), events.append)
    assert report.outcome is Outcome.COMMITTED
    (span,) = report.throttled_spans
    assert span.refused == report.throttled == 5
    assert 0 <= span.began <= span.last <= report.seconds
    assert (span.before, span.lowest < 2000) == (2000, True)
    assert report.findings[0].startswith("The store throttled from ")
    assert "refused 5 requests; the limiter went from 2,000 down to" in report.findings[0]
    assert sum(row.throttled for row in report.worker_rows) == 5
    told = [type(event) for event in events if isinstance(event, Throttled | Notice)]
    assert told[-1] is Notice
    ended = [isinstance(event, StageEnded) and event.stage == names.RENAME_FILES for event in events]
    assert any(isinstance(event, Throttled) for event in events[: ended.index(True)])  # while it lasts
    summary = decode_success(store.read("/bucket/reports/summary-job_1.json"), "summary")
    assert summary is not None
    assert report_of_success(summary, "summary").throttled == 5  # not once more for the limit


@pytest.mark.usefixtures("small_shards")
def test_renames_that_had_to_be_repeated_are_counted_where_they_happened():
    store, failed = MemoryStore(), set[str]()
    write_job(store, new_job_attempt("/bucket/table", "job_1", 0), TASKS)

    def fail_first(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[0].endswith("f007") and call.paths[0] not in failed:
            failed.add(call.paths[0])
            raise OSError(5, "simulated", call.paths[0])

    report = committed(WrappedStore(store, before=fail_first))
    assert report.retries == sum(row.retries for row in report.worker_rows) == len(failed) == 4
    assert report.findings == ["4 requests had to be repeated after a failed or missing answer."]


def test_no_secret_is_in_a_report(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    options = CommitOptions(
        summary_directory="nothing://me:password@h/r?sv=1&sig=signature&se=2",
    )
    report = ray_committer.commit_job(str(dest), options=options)
    assert report.options["summary_directory"] == "nothing://me@h/r?sv=1&sig=...&se=2"
    for told in (report_json(report), str(report), report_html(report)):
        for secret in ("password", "signature"):
            assert secret not in told


def test_no_password_is_in_the_command_that_runs_a_commit_again():
    options = CommitOptions(allowed_roots=("sftp://me:password@h/b",))
    assert repeat_command(BLANK, options).endswith("--allowed-root sftp://me@h/b")
