"""Jobs that Hadoop's S3A committer left, before anything here has taken them over: what ``status`` and a
dry run say, what an abort ends, and what ``vacuum`` leaves alone."""

from __future__ import annotations

import shlex
from contextlib import suppress

import msgspec
import pytest
from click.testing import CliRunner, Result

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.cli.main import main
from ray_committer.errors import (
    AmbiguousJobError,
    CommitRecordExistsError,
    IncompleteJobError,
    JobNotFoundError,
    RayCommitterError,
)
from ray_committer.jobs.destination_status import destination_status
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.paths import CURRENT
from ray_committer.protocol.success import SUCCESS_NAME, SuccessData
from ray_committer.testing import SimulatedCrash
from tests.commits.test_adopted_jobs import (
    FILES,
    NEW,
    OLD,
    TABLE,
    TASKS,
    URL,
    UUID,
    check_committed,
    commit,
    decode_pendingset_of,
    dying_after,
    opened,
    upload,
    visible,
    write_pending,
    write_task,
)
from tests.servers.fake_s3 import FakeS3, Hook, direct_store

pytestmark = pytest.mark.usefixtures("no_pauses")


@pytest.fixture
def fake() -> FakeS3:
    """A server on which a job of S3A's committer waits, with a task that has not committed."""
    fake = FakeS3()
    direct_store(fake).mkdirs(OLD)
    for task in TASKS:
        write_task(fake, task)
    write_pending(fake, upload(fake, f"{TABLE}/late", b"late"))
    return fake


def run(fake: FakeS3, *words: str) -> Result:
    with opened(fake):
        return CliRunner().invoke(main, [*words])


def abort(fake: FakeS3, **hooks: Hook) -> list[str]:
    """Abort the job; the notices of the abort."""
    events: list[object] = []
    with opened(fake, **hooks):
        assert ray_committer.abort_job(URL, UUID, on_event=events.append)
    return [str(getattr(one, "text", "")) for one in events if hasattr(one, "text")]


def is_clean(fake: FakeS3) -> bool:
    return not [one for one in fake.buckets["bucket"] if "__magic" in one or "_temporary" in one]


def test_status_names_the_job_its_tasks_and_both_commands(fake: FakeS3):
    before = dict(fake.buckets["bucket"])
    with opened(fake):
        (job,) = ray_committer.list_jobs(URL)
        assert ray_committer.list_jobs(URL, exact=True) == [job]
    assert (job.job_id, job.state, job.manifests, job.directory) == (UUID, "left", 3, OLD)
    assert fake.buckets["bucket"] == before
    shown = run(fake, "status", URL).output
    dest = shlex.quote(URL)
    assert f"finish it: ray-committer commit {dest} --job-id {UUID} --expect-tasks N" in shown
    assert f"or give it up: ray-committer abort {dest} --job-id {UUID}\n" in shown
    assert "3 tasks committed\n" in shown


def test_status_shows_each_attempt_and_an_adopted_job_once(fake: FakeS3):
    for number in (0, 1):
        write_task(fake, 0, f"{NEW}/0{number}")
    with opened(fake):
        found = ray_committer.list_jobs(URL)
    assert [(one.job_attempt, one.manifests) for one in found] == [(0, 4), (1, 1)]
    assert "--attempt 1" in str(found[1].command)
    fake = FakeS3()
    write_task(fake, 0)
    with suppress(Exception):
        commit(fake, tasks=2)
    with opened(fake):
        assert [one.state for one in ray_committer.list_jobs(URL)] == ["running"]


def test_status_shows_uploads_where_no_job_is():
    fake = FakeS3()
    upload(fake, f"{TABLE}/a", b"x")
    with opened(fake):
        (left,) = destination_status(URL).leftovers
        assert (left.left_by, len(left.paths)) == ("uploads", 1)
        assert str(left.command).endswith("--dry-run")
        ray_committer.setup_job(URL, "job_1")
        assert destination_status(URL).leftovers == ()


@pytest.mark.parametrize("words", [("commit", "--expect-tasks", "3"), ("abort",), ("abort", "--undo")])
@pytest.mark.parametrize("is_adopted", [False, True])
def test_a_dry_run_is_refused_and_changes_nothing(
    fake: FakeS3, words: tuple[str, ...], is_adopted: bool
):
    if is_adopted:
        with suppress(IncompleteJobError):
            commit(fake, tasks=4)
    before, uploads = dict(fake.buckets["bucket"]), dict(fake.uploads)
    result = run(fake, *words, URL, "--job-id", UUID, "--dry-run")
    assert result.exit_code == 2
    shown = " ".join(result.stderr.split())
    assert (
        "/__magic/job-0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b: is a job of Hadoop's S3A committer, for "
        "which a dry run is not supported" in shown
    )
    assert f"run `ray-committer status {shlex.quote('s3://bucket/t/table%20öne')}`" in shown
    assert (fake.buckets["bucket"], fake.uploads) == (before, uploads)
    assert commit(fake) is Outcome.COMMITTED


def test_an_abort_ends_the_uploads_of_the_job_alone(fake: FakeS3):
    other = upload(fake, f"{TABLE}/p=1/a", b"of another job")
    assert abort(fake) == []
    assert [*fake.uploads] == [other.u]
    assert visible(fake) == {}
    assert is_clean(fake)
    with pytest.raises(JobNotFoundError):
        commit(fake)


def test_an_abort_names_what_s3a_has_completed_before_its_driver_died(fake: FakeS3):
    (entry,) = decode_pendingset_of(fake, 1).files
    action = CompleteUpload(f"{TABLE}/p=1/c+d&e", entry.u or "", entry.p or ())
    assert direct_store(fake).publish(action) is Answer.DONE
    (notice,) = abort(fake)
    assert "p=1/c+d&e: completed by Hadoop's committer before this abort, and still visible" in notice
    assert (fake.uploads, [*visible(fake)]) == ({}, ["p=1/c+d&e"])


def test_an_abort_that_sleeps_while_the_job_is_committed_does_not_say_that_it_aborted_it(fake: FakeS3):
    done: list[Outcome] = []

    def commit_first(method: str, path: str, _: str) -> None:
        if method == "PUT" and path.endswith(f"/{CURRENT}") and not done:
            done.append(Outcome.COMMITTED)
            commit(fake)

    with pytest.raises(CommitRecordExistsError, match="was committed by another process"):
        abort(fake, before=commit_first)
    assert visible(fake) == FILES
    assert is_clean(fake)


def test_an_abort_of_one_attempt_leaves_the_other():
    fake = FakeS3()
    for number in (0, 1):
        write_task(fake, 0, f"{NEW}/0{number}")
    with pytest.raises(AmbiguousJobError, match=r"has the attempts \[0, 1\]"):
        abort(fake)
    with opened(fake):
        assert ray_committer.abort_job(URL, UUID, options=CommitOptions(job_attempt=0))
        assert [one.job_attempt for one in ray_committer.list_jobs(URL)] == [1]
    assert len(fake.uploads) == len(TASKS[0])
    assert commit(fake, tasks=1) is Outcome.COMMITTED
    assert visible(fake) == TASKS[0]


def test_a_commit_ends_the_uploads_of_the_other_attempts_too():
    fake = FakeS3()
    for number in (0, 1):
        write_task(fake, 0, f"{NEW}/0{number}")
    assert commit(fake, tasks=1, job_attempt=1) is Outcome.COMMITTED
    assert visible(fake) == TASKS[0]
    assert [one.name for one in fake.uploads.values() if ".probe-" not in one.name] == []
    assert is_clean(fake)


def test_a_job_that_s3a_has_committed_is_not_aborted(fake: FakeS3):
    success = SuccessData(name=SUCCESS_NAME, timestamp=0, job_id=UUID)
    direct_store(fake).write(f"{TABLE}/_SUCCESS", msgspec.json.encode(success))
    with opened(fake):
        assert not ray_committer.abort_job(URL, UUID)
    assert len(fake.uploads) == len(FILES) + 1


def test_a_job_that_only_has_a_directory_is_aborted():
    fake = FakeS3()
    direct_store(fake).mkdirs(OLD)
    abort(fake)
    assert is_clean(fake)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.wide)])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_abort_that_dies_at_any_request_is_finished_and_no_commit_comes_between(
    fake: FakeS3, moment: str, stride: int
):
    whole = fake.copy()
    abort(whole)
    for number in range(0, len(whole.requests), stride):
        each = fake.copy()
        with suppress(SimulatedCrash):
            abort(each, **{moment: dying_after(number)})
        outcome = None
        with suppress(Exception):
            outcome = commit(each.copy())
        assert outcome in (None, Outcome.COMMITTED)
        with suppress(JobNotFoundError), opened(each):
            ray_committer.abort_job(URL, UUID)
        left = [one.name for one in each.uploads.values() if ".probe-" not in one.name]
        assert (left, visible(each)) == ([], {}), number
        assert is_clean(each), number
        if number < 5:
            assert outcome is Outcome.COMMITTED  # nothing was decided yet


def test_a_commit_that_wins_is_not_aborted(fake: FakeS3):
    with opened(fake):
        ray_committer.record_job(URL, UUID, executor="inline", options=CommitOptions(expected_tasks=3))
    result = run(fake, "abort", URL, "--job-id", UUID)
    assert result.exit_code == 4
    assert len(fake.uploads) == len(FILES) + 1
    assert commit(fake) is Outcome.COMMITTED
    check_committed(fake)


RIGHTS = [
    (("PUT", ""), "s3:PutObject"),
    (("GET", ""), "s3:GetObject"),
    (("GET", "list-type"), "s3:ListBucket"),
    (("POST", "uploads"), "s3:PutObject"),
    (("POST", "uploadId"), "s3:PutObject"),
    (("GET", "uploads"), "s3:ListBucketMultipartUploads"),
    (("GET", "uploadId"), "s3:ListMultipartUploadParts"),
    (("DELETE", "uploadId"), "s3:AbortMultipartUpload"),
    (("DELETE", ""), "s3:DeleteObject"),
]


@pytest.mark.parametrize(("denied", "right"), RIGHTS)
def test_a_right_that_is_missing_is_named_before_the_record(
    fake: FakeS3, denied: tuple[str, str], right: str
):
    uploads, fake.denied = dict(fake.uploads), {denied}
    with pytest.raises((RayCommitterError, PermissionError), match=f"it needs the right .*{right}"):
        commit(fake)
    fake.denied = set()
    assert visible(fake) == {}
    assert uploads.items() <= fake.uploads.items()
    assert commit(fake) is Outcome.COMMITTED
    assert visible(fake) == FILES
