"""Jobs on moto by the public API: what is visible when, what is left, and what a crash costs."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.cli.main import main
from ray_committer.errors import (
    PathError,
    StoreFailedError,
    StoreRefusedError,
    TaskCommitError,
)
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.http import HttpClient
from ray_committer.stores.s3.bucket import STAMP_HEADER
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import SimulatedCrash, run_commit, visible_files, write_job
from ray_committer.testing.harness import set_up_attempt
from ray_committer.testing.store_contract import NAMES
from ray_committer.work.upload_file import TaskUploads
from tests.tiers import RANGE

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

PART = 5 << 20
Options = dict[str, Any]


def keys(s3: Any, bucket: str) -> dict[str, bytes]:
    """The objects of a bucket that readers of the table see."""
    found = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
    names = [one["Key"] for one in found if "_temporary" not in one["Key"]]
    return {name: s3.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names}


def uploads(s3: Any, bucket: str) -> list[str]:
    return sorted(one["Key"] for one in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []))


def attempt_of(dest: str, options: Options, task: int, attempt: int = 0) -> Any:
    return ray_committer.task_attempt(dest, "job_1", task, attempt, storage_options=options)


def write_task(
    dest: str, options: Options, task: int, files: dict[str, bytes], attempt: int = 0
) -> None:
    with attempt_of(dest, options, task, attempt) as running:
        for name, data in files.items():
            with running.open(name) as file:
                file.write(data)


def test_a_job_is_invisible_until_its_commit_and_whole_after_it(s3: Any, bucket: str, options: Options):
    dest = f"s3a://{bucket}/the%20table"
    ray_committer.setup_job(dest, "job_1", storage_options=options)
    files = {f"p={name}/{name}": name.encode() for name in NAMES}
    write_task(dest, options, 0, files)
    write_task(dest, options, 1, {"empty": b""})
    assert keys(s3, bucket) == {}
    assert len(uploads(s3, bucket)) == len(NAMES) + 1
    report = ray_committer.commit_job(
        dest, "job_1", executor="threads", options=CommitOptions(validate=True), storage_options=options
    )
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, len(NAMES) + 1)
    found = keys(s3, bucket)
    assert found.pop("the table/_SUCCESS")
    assert found == {f"the table/{name}": data for name, data in files.items()} | {
        "the table/empty": b""
    }
    assert uploads(s3, bucket) == []
    everything = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert not [one["Key"] for one in everything if "_temporary" in one["Key"]]


def test_a_large_file_is_written_in_parts_and_stamped(
    s3: Any, bucket: str, options: Options, monkeypatch
):
    monkeypatch.setattr("ray_committer.stores.parts.PART_BYTES", PART)
    dest = f"s3://{bucket}/table"
    stamps: list[str] = []
    ray_committer.setup_job(dest, "job_1", storage_options=options, on_stamp=stamps.append)
    data = bytes(range(256)) * (2 * PART // 256) + b"the rest"
    with attempt_of(dest, options, 0) as attempt:
        with attempt.open("a") as file:
            for low in range(0, len(data), 1_000_000):
                file.write(data[low : low + 1_000_000])
            assert file.tell() == len(data)
        assert attempt.uploads is not None
        (entry,) = attempt.uploads.entries()
    assert (len(entry.p or ()), entry.z) == (3, len(data))
    ray_committer.commit_job(dest, "job_1", executor="inline", storage_options=options)
    head = s3.head_object(Bucket=bucket, Key="table/a")
    assert head["ETag"] == f'"{entry.e}"'
    assert head["Metadata"] == {STAMP_HEADER.removeprefix("x-amz-meta-"): stamps[0]}
    assert keys(s3, bucket)["table/a"] == data


def kill_task(store: S3Store, task: int, attempt: int = 0) -> None:
    """A task attempt whose process dies after it has closed one file and opened another."""
    job = new_job_attempt("/table", "job_1", 0)
    directory = job.task_attempt(set_up_attempt(store, job, task, attempt))
    files = TaskUploads(store, directory, None)
    with files.open(f"/table/killed-{task}") as file:
        file.write(b"1")
    files.open(f"/table/open-{task}")._begin()


def test_the_commit_aborts_uploads_of_attempts_that_do_not_count(
    s3: Any, store: S3Store, bucket: str, options: Options
):
    dest = f"s3://{bucket}/table"
    ray_committer.setup_job(dest, "job_1", storage_options=options)
    kill_task(store, 0)
    write_task(dest, options, 0, {"a": b"of attempt 1"}, attempt=1)
    write_task(dest, options, 0, {"a": b"of attempt 2"}, attempt=2)  # the last one counts
    s3.create_multipart_upload(Bucket=bucket, Key="table/of another")
    report = ray_committer.commit_job(
        dest,
        "job_1",
        executor="inline",
        options=CommitOptions(expected_tasks=1),
        storage_options=options,
    )
    assert report.moved == 1
    assert keys(s3, bucket)["table/a"] == b"of attempt 2"
    assert uploads(s3, bucket) == ["table/of another"]


@pytest.mark.parametrize("how", ["abort", "vacuum"])
def test_an_abort_aborts_all_uploads_of_the_job_and_no_others(
    s3: Any, store: S3Store, bucket: str, options: Options, how: str
):
    dest = f"s3://{bucket}/table"
    ray_committer.setup_job(dest, "job_1", storage_options=options)
    write_task(dest, options, 0, {"a": b"1"})
    kill_task(store, 1)
    ray_committer.setup_job(dest, "job_2", storage_options=options)
    with ray_committer.task_attempt(dest, "job_2", 0, storage_options=options) as other:
        other.open("b").close()
    assert len(uploads(s3, bucket)) == 4
    if how == "abort":
        assert ray_committer.abort_job(dest, "job_1", storage_options=options)
    else:  # moto has no clock of its own: all is too young to be removed
        found = ray_committer.vacuum_jobs(dest, storage_options=options)
        assert {one.reason for one in found} == {"it has changed recently"}
        assert ray_committer.abort_job(dest, "job_1", storage_options=options)
    assert uploads(s3, bucket) == ["table/b"]
    report = ray_committer.commit_job(dest, "job_2", executor="inline", storage_options=options)
    assert report.moved == 1
    assert keys(s3, bucket).keys() == {"table/b", "table/_SUCCESS"}


class DyingClient(HttpClient):
    """Dies before or after one of the requests."""

    def __init__(self, number: int, when: str) -> None:
        super().__init__()
        self.left, self.when = number, when

    def request(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            raise SimulatedCrash(args)
        answer = super().request(*args, **kwargs)
        if self.left == 0:
            raise SimulatedCrash(args)
        return answer


STRIDE = 8
STEPS = [
    pytest.param(step, marks=() if step == RANGE % STRIDE else (pytest.mark.wide,))
    for step in range(STRIDE)
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
def test_a_commit_that_died_at_any_http_request_is_finished(
    s3: Any, store: S3Store, bucket: str, options: Options, mode: ConflictMode, step: int
):
    tasks = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}}
    expected = {name: data for files in tasks.values() for name, data in files.items()}
    died, how = 0, CommitOptions(mode=mode)
    for number in range(1 + step, 100, STRIDE):
        job = new_job_attempt("/t", "j", 0)
        store.delete_directory("/t")
        write_job(store, job, tasks, mode=mode)
        if mode.replaces:
            store.write("/t/p=1/a", b"old of that name")
            store.write("/t/p=1/old", b"old")
        when = ("before", "after")[number // STRIDE % 2]
        dying = S3Store(StoreSpec("s3", bucket, options), client=DyingClient(number, when))
        try:
            run_commit(dying, job, how)
        except SimulatedCrash:
            died += 1
            run_commit(store, job, how)
        else:
            break
        assert visible_files(store, "/t") == expected, (number, when)
        assert uploads(s3, bucket) == [], (number, when)
        assert store.get_status("/t/_temporary") is None, (number, when)
    assert died >= 2


def test_the_command_line_finishes_and_shows_a_job(s3: Any, bucket: str, options: Options):
    dest = f"s3://{bucket}/table"
    ray_committer.setup_job(dest, "job_1", storage_options=options)
    write_task(dest, options, 0, {"a": b"1"})
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    for command, shown in (
        (["status", dest], "job_1"),
        (["commit", dest, "--expect-tasks", "1", "--executor", "threads"], "committed"),
        (["validate", dest, "--job-id", "job_1"], ""),
        (["vacuum", dest], ""),
    ):
        result = CliRunner().invoke(main, [*command, *given])
        assert (result.exit_code, "Traceback" in result.output) == (0, False), result.output
        assert shown in result.output
    assert keys(s3, bucket).keys() == {"table/a", "table/_SUCCESS"}


def test_the_doctor_finds_nothing_wrong(s3: Any, store: S3Store, bucket: str, options: Options):
    rule = {"DaysAfterInitiation": 3}
    rules = [
        {
            "ID": "1",
            "Status": "Enabled",
            "Filter": {"Prefix": "table/"},
            "AbortIncompleteMultipartUpload": rule,
        }
    ]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    result = CliRunner().invoke(main, ["doctor", f"s3://{bucket}/table", *given])
    assert "failed" not in result.output.split("a commit")[0], result.output
    assert "one of many completions wins" in result.output
    assert "aborts uploads 3 days after they began, also those of jobs at work" in result.output
    assert store.settings().versioning() is None
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert store.settings().versioning() == "Enabled"


def test_what_is_not_built_is_refused_with_what_to_do(bucket: str, options: Options):
    dest = f"s3://{bucket}/table"
    ray_committer.setup_job(dest, "job_1", storage_options=options)
    with attempt_of(dest, options, 0) as attempt:
        with pytest.raises(StoreRefusedError, match=r"write it with attempt\.open"):
            attempt.path("a")
        attempt.open("twice").close()
        with pytest.raises(StoreFailedError, match="was opened before by this task attempt"):
            attempt.open("twice")
        with pytest.raises(PathError, match=r"contains a '\.' or"):
            attempt.open("../b")
    with (
        pytest.raises(TaskCommitError, match="/table/b: was opened but not closed"),
        attempt_of(dest, options, 1) as attempt,
    ):
        attempt.open("b").write(b"1")
    with (
        pytest.raises(TaskCommitError, match="was written here, and S3 has no rename"),
        attempt_of(dest, options, 2) as attempt,
    ):
        attempt.store.write(f"{attempt.directory}/c", b"1")
