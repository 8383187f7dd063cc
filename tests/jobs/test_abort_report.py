"""What an abort says that it has deleted is what its plan said, and what is gone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer import AbortReport, CommitOptions
from ray_committer.errors import RayCommitterError
from ray_committer.job_files.job_state import adopt_state, advance
from ray_committer.protocol.paths import UNDONE, JobAttempt, join, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.table_jobs.table import init_table
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall
from ray_committer.testing import write_job as write_to
from tests.cli.commands import run
from tests.commits import test_spark_uploads as of_spark
from tests.commits.test_adopted_jobs import TABLE as LEFT_TABLE
from tests.commits.test_adopted_jobs import TASKS as LEFT_TASKS
from tests.commits.test_adopted_jobs import URL as LEFT_URL
from tests.commits.test_adopted_jobs import UUID, opened, upload, write_pending, write_task
from tests.opening import dying, opening
from tests.servers.fake_s3 import FakeS3, direct_store
from tests.stages.support import JOB, KINDS

FILES = {0: {"p=1/a": "x", "p=2/b": "yy"}, 1: {"p=2/c": "zzz"}}
DATA = {task: {name: text.encode() for name, text in files.items()} for task, files in FILES.items()}


def abort(dest: object, job_id: str | None = None, **how: object) -> AbortReport:
    """Abort a job; what the report says."""
    reports: list[AbortReport] = []
    ray_committer.abort_job(str(dest), job_id, on_report=reports.append, **how)  # type: ignore[arg-type]
    (report,) = reports
    return report


def move_one(job: JobAttempt) -> None:
    """As a commit does that dies after it has moved one of the three files."""
    place = Path(job.destination, "p=1")
    place.mkdir()
    next(Path(job.directory).rglob("p=1/a")).rename(place / "a")


def test_a_job_on_a_local_disk_is_told_with_its_files_and_bytes(write_job, dest: Path, tree):
    job = write_job(FILES)
    (dest / "old").write_text("of another job")
    planned = ray_committer.plan_abort(str(dest))
    assert abort(dest) == planned
    assert (planned.job_id, planned.job_attempt, planned.directory) == ("job_1", 0, job.directory)
    assert (planned.files, planned.bytes, planned.uploads, planned.moved) == (3, 6, None, 0)
    assert tree() == {"old": "of another job"}


def test_an_undo_tells_apart_what_it_took_back_and_what_its_tasks_had_left(write_job, dest: Path, tree):
    job = write_job(FILES)
    ray_committer.record_job(str(dest))
    move_one(job)
    planned = ray_committer.plan_abort(str(dest), undo=True)
    assert (planned.moved, planned.files, planned.bytes) == (1, 2, 5)
    assert abort(dest, undo=True) == planned
    assert tree() == {}


def test_an_undo_that_died_half_way_and_is_run_again_tells_all_of_it(write_job, dest):
    job = write_job(FILES)
    ray_committer.record_job(str(dest))
    move_one(job)
    with dying(lambda call: call.operation == "set_aside" and f"/{UNDONE}/" in call.paths[1]):
        ray_committer.abort_job(str(dest), undo=True)
    report = abort(dest, undo=True)
    assert (report.moved, report.files, report.bytes) == (1, 2, 5)


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_dry_run_that_finds_nothing_says_so(write_job, dest: Path, is_committed: bool):
    write_job(FILES)
    if is_committed:
        ray_committer.commit_job(str(dest))
    job_id = "job_1" if is_committed else "job_9"
    options = CommitOptions(job_attempt=0)
    planned = ray_committer.plan_abort(str(dest), job_id, options=options)
    assert planned.directory is None
    assert abort(dest, job_id, options=options) == planned
    shown = run("abort", str(dest), "--job-id", job_id, "--attempt", "0", "--dry-run").stdout
    assert shown == f"{dest}: nothing is left to abort\n  nothing was changed\n"


def test_an_abort_that_died_after_its_decision_is_told_by_the_next_one(write_job, dest: Path, store):
    job = write_job(FILES)
    advance(store, job, adopt_state(store, job), Phase.ABORTED)
    report = abort(dest)
    assert (report.directory, report.files) == (job.directory, 3)


def test_the_claim_that_ends_is_told(dest: Path, write_job):
    init_table(str(dest))
    (dest / "p=1").mkdir()
    (dest / "p=1" / "a").write_text("of nobody")
    write_job(FILES)
    with pytest.raises(RayCommitterError):
        ray_committer.commit_job(str(dest), options=CommitOptions(mode="error_partitions"))  # type: ignore[arg-type]
    planned = ray_committer.plan_abort(str(dest))
    assert planned.claim is not None
    assert abort(dest) == planned


SHOWN = f"memory://test{JOB.directory}"


def counted(kind: str) -> tuple[AbortReport, Counter[str]]:
    """An abort on a store in memory, and its requests."""
    store: MemoryStore = KINDS[kind]()
    write_to(store, JOB, DATA)
    calls: list[StoreCall] = []
    with opening(store, before=calls.append):
        return abort("/table"), Counter(call.operation for call in calls)


def test_a_directory_that_one_request_deletes_is_not_listed():
    report, calls = counted("directories")
    assert (report.directory, report.files, report.bytes) == (SHOWN, None, None)
    assert calls["list_files"] == 0
    assert calls["delete_directory"] == 1


def test_where_each_file_is_deleted_by_a_request_they_are_counted_by_listings():
    report, calls = counted("flat")
    assert (report.directory, report.files, report.bytes) == (SHOWN, 3, 6)
    assert calls["list_files"] == 2  # of the tasks, and of an undo


S3 = "s3://bucket/t"
S3_JOB = new_job_attempt("/t", "job_1", 0)


@pytest.fixture
def fake() -> FakeS3:
    """A server with a job, a file of it that a task was writing when it was killed, and another job."""
    fake = FakeS3()
    store = direct_store(fake)
    write_to(store, S3_JOB, DATA)
    write_to(store, new_job_attempt("/t", "job_2", 0), {0: {"p=1/d": b"of another job"}})
    begun = store.begin_upload("/t/p=3/e", None)
    note = f'{{"s":"","d":"{S3}/p=3/e","z":0,"u":"{begun}"}}'
    path = join(S3_JOB.task_attempt("attempt_1_m_000009_0"), "uploads", "000000.upload")
    store.write(path, note.encode())
    return fake


def test_on_s3_the_uploads_of_the_job_are_told_and_not_its_notes(fake: FakeS3):
    with opened(fake):
        planned = ray_committer.plan_abort(S3, "job_1")
        assert (planned.uploads, planned.files, planned.bytes) == (4, None, None)
        assert planned.directory == f"{S3}/_temporary/job_1/00"
        assert abort(S3, "job_1") == planned
    assert len(fake.uploads) == 1


def test_on_s3_an_undo_plans_what_is_completed_and_what_is_pending(fake: FakeS3):
    complete_one(fake)
    with opened(fake):
        planned = ray_committer.plan_abort(S3, "job_1", undo=True)
        assert (planned.moved, planned.uploads) == (1, 3)
        report = abort(S3, "job_1", undo=True)
    assert report.moved is None
    assert len(fake.uploads) == 1
    assert [name for name in fake.buckets["bucket"] if "p=" in name] == []


def complete_one(fake: FakeS3) -> None:
    """Commit the job, and die before the second upload is completed."""
    made: list[str] = []

    def die(method: str, name: str, query: str) -> None:
        made.extend([name] if method == "POST" and "uploadId=" in query else [])
        if len(made) == 2:
            raise SimulatedCrash(name)

    with opened(fake, before=die), pytest.raises(SimulatedCrash):
        ray_committer.commit_job(S3, "job_1", executor="inline", options=CommitOptions(expected_tasks=2))


def test_the_uploads_of_a_job_that_s3a_left_are_told():
    fake = FakeS3()
    for task in LEFT_TASKS:
        write_task(fake, task)
    write_pending(fake, upload(fake, f"{LEFT_TABLE}/late", b"late"))
    upload(fake, f"{LEFT_TABLE}/of another job", b"x")
    with opened(fake):
        assert abort(LEFT_URL, UUID).uploads == 4
    assert len(fake.uploads) == 1


def test_the_uploads_that_killed_tasks_of_spark_left_are_told():
    fake = FakeS3()
    job = new_job_attempt(of_spark.TABLE, of_spark.UUID, 0)
    write_to(direct_store(fake), job, of_spark.TASKS)
    of_spark.leave_pending(fake, of_spark.UUID)
    url = f"s3://bucket{of_spark.TABLE}"
    with opened(fake):
        planned = ray_committer.plan_abort(url, of_spark.UUID)
        assert planned.uploads == 4
        assert abort(url, of_spark.UUID) == planned
    assert fake.uploads == {}


@pytest.mark.parametrize(
    ("words", "would"), [((), "was"), (("--dry-run",), "would be")], ids=["abort", "dry run"]
)
def test_on_s3_the_command_prints_the_uploads(fake: FakeS3, words: tuple[str, ...], would: str):
    with opened(fake):
        shown = run("abort", S3, "--job-id", "job_1", *words).stdout
    were = would.replace("was", "were")
    assert shown.startswith(
        f"{S3}: job job_1, attempt 0, {would} aborted\n"
        f"  {S3}/_temporary/job_1/00 {would} deleted, and 4 uploads of its tasks {were} aborted\n"
    )


def test_a_store_that_shows_nothing_prints_its_directory_alone():
    store = MemoryStore()
    write_to(store, JOB, DATA)
    with opening(store):
        shown = run("abort", "/table").stdout
    assert f"  {SHOWN} was deleted, with all that its tasks wrote\n" in shown
