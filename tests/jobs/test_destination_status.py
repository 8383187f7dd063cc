"""What a status says of a destination: always something, from a few requests, and without a change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import JobNotFoundError
from ray_committer.jobs.destination_status import DestinationStatus, destination_status
from ray_committer.jobs.past_commits import past_commits
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.table_jobs.table import init_table
from ray_committer.testing import StoreCall
from ray_committer.testing import write_job as write_to
from tests.cli.commands import run, snapshot
from tests.commits.test_adopted_jobs import opened
from tests.opening import opening
from tests.servers.fake_s3 import FakeS3, direct_store
from tests.stages.support import closed


def status_of(dest: Path, **how) -> DestinationStatus:
    """The status, which changes nothing."""
    before = snapshot(dest)
    found = destination_status(str(dest), **how)
    assert snapshot(dest) == before
    return found


def commit(write_job, dest: Path, files: dict[str, str], job_id: str = "job_1", **options) -> None:
    write_job({0: files}, job_id=job_id)
    ray_committer.commit_job(str(dest), job_id, executor="inline", options=CommitOptions(**options))


def test_a_missing_destination_is_not_an_empty_one(dest: Path):
    with pytest.raises(JobNotFoundError, match="does not exist"):
        destination_status(str(dest))
    dest.mkdir()
    assert status_of(dest).holds == "nothing"
    (dest / "f").touch()
    with pytest.raises(JobNotFoundError, match="is a file"):
        destination_status(str(dest / "f"))


@pytest.mark.parametrize(
    ("name", "holds"), [("part-0", "data"), ("_p=1", "data"), (".hidden", "nothing"), ("_x", "nothing")]
)
def test_data_is_what_a_reader_sees(dest: Path, name: str, holds: str):
    dest.mkdir()
    (dest / name).touch()
    assert status_of(dest).holds == holds


def test_the_last_commit_is_that_of_the_marker(write_job, dest: Path):
    commit(write_job, dest, {"p=1/a": "x", "p=2/b": "yy"})
    found = status_of(dest)
    last = found.last_commit
    assert last is not None
    assert (found.holds, found.jobs, found.leftovers) == ("committed", (), ())
    assert (last.job_id, last.job_attempt, last.files, last.bytes) == ("job_1", 0, 2, 3)
    assert (last.committer, last.table_version, last.problem) == ("ray_committer", None, None)
    assert last.at_milliseconds is not None


def test_the_marker_of_a_classic_committer_has_its_time_alone(dest: Path):
    dest.mkdir()
    (dest / "_SUCCESS").touch()
    last = status_of(dest).last_commit
    assert last is not None
    assert (last.job_id, last.committer, last.problem) == (None, "a classic committer", None)
    assert last.at_milliseconds == (dest / "_SUCCESS").stat().st_mtime_ns // 1_000_000


def test_a_marker_that_cannot_be_read_is_a_problem_and_no_error(dest: Path):
    dest.mkdir()
    (dest / "_SUCCESS").write_text("{")
    found = status_of(dest)
    assert found.last_commit is not None
    assert "is not a job success marker" in str(found.last_commit.problem)
    assert found.holds == "committed"


@pytest.mark.parametrize("timestamp", [10**18, -(10**18), -1])
def test_a_time_that_is_none_is_that_of_the_file(dest: Path, timestamp: int):
    commit_marker(dest, timestamp)
    (last,) = past_commits(str(dest))
    assert last.at_milliseconds is None
    last = status_of(dest).last_commit
    assert last is not None
    assert last.at_milliseconds == (dest / "_SUCCESS").stat().st_mtime_ns // 1_000_000
    assert [run(command, str(dest)).exit_code for command in ("status", "history")] == [0, 0]


def commit_marker(dest: Path, timestamp: int) -> None:
    dest.mkdir()
    name = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
    (dest / "_SUCCESS").write_text(f'{{"name": "{name}", "timestamp": {timestamp}}}')


@pytest.mark.parametrize("number", [1, 300])
def test_a_quiet_destination_costs_a_listing_and_a_read_however_many_files_it_has(
    write_job, dest: Path, calls: list[str], number: int
):
    commit(write_job, dest, {f"p={n}/{n}": "x" for n in range(number)})
    calls.clear()
    status_of(dest)
    assert calls == ["list_status", "read"]


def test_the_last_commit_of_a_table_is_in_its_log(write_job, dest: Path, calls: list[str]):
    init_table(str(dest))
    for number in (1, 2):
        commit(write_job, dest, {f"p={number}/a": "x"}, f"job_{number}", mark_success=number == 1)
    calls.clear()
    found = status_of(dest)
    assert found.last_commit is not None
    assert (found.last_commit.job_id, found.last_commit.table_version) == ("job_2", 6)
    assert (found.table_version, found.holds, found.problem) == (6, "committed", None)
    assert len(calls) <= 20


def test_a_log_that_cannot_be_read_is_a_problem_and_no_error(write_job, dest: Path):
    init_table(str(dest))
    commit(write_job, dest, {"a": "x"})
    for entry in (dest / "_ray_committer/log").rglob("*.entry"):
        entry.write_text("{")
    found = status_of(dest)
    assert "the log of the table cannot be read" in str(found.problem)
    assert found.table_version is None


def test_the_marker_is_told_if_only_its_jobs_can_be_read_in_the_log(write_job, dest: Path):
    init_table(str(dest))
    commit(write_job, dest, {"a": "x"})
    read = set[str]()

    def deny_the_second(call: StoreCall) -> None:
        path = call.paths[0]
        if call.operation == "read" and "/log/" in path and path in read:
            raise PermissionError(13, "denied", path)
        read.add(path)

    with opening(before=deny_the_second):
        found = destination_status(str(dest))
    assert found.last_commit is not None
    assert (found.holds, found.last_commit.job_id) == ("committed", "job_1")
    assert "the log of the table cannot be read" in str(found.problem)


def test_a_destination_that_may_not_be_listed_still_shows_its_jobs(write_job, dest: Path):
    commit(write_job, dest, {"a": "x"})
    write_job({0: {"b": "x"}}, job_id="job_2")

    def deny(call: StoreCall) -> None:
        if (call.operation, call.paths) == ("list_status", (str(dest),)):
            raise PermissionError(13, "denied", str(dest))

    with opening(before=deny):
        found = destination_status(str(dest))
    assert found.problem == f"{dest}: no permission to read it"
    assert [job.job_id for job in found.jobs] == ["job_2"]
    assert found.last_commit is not None
    assert found.last_commit.job_id == "job_1"


def test_uploads_that_may_not_be_listed_are_a_problem_and_no_error():
    fake = FakeS3()
    write_to(direct_store(fake), new_job_attempt("/t", "job_1", 0), {0: {"a": b"x"}})
    with opened(fake):
        ray_committer.commit_job("s3://bucket/t", executor="inline")
        fake.denied.add(("GET", "uploads"))
        found = destination_status("s3://bucket/t")
    assert (found.holds, found.leftovers) == ("committed", ())
    assert found.problem == "/t: no permission to list pending uploads"


def test_a_directory_of_a_job_that_may_not_be_read_is_a_job_and_no_leftover(
    write_job, dest: Path, store
):
    with opening(closed(store, write_job({0: {"a": "x"}}).job_directory)):
        found = destination_status(str(dest))
    assert ([job.state for job in found.jobs], found.leftovers) == (["unknown"], ())


def test_what_other_committers_have_left_is_named_by_its_kind(write_job, dest: Path):
    for name in (
        "_temporary/0/task_1_m_000000/p=1",
        "_temporary/0/task_1_m_000001",
        "_temporary/0/_temporary/attempt_1_m_000002_0",
        "_temporary/job_7",
        "_temporary/strange/x",
        ".spark-staging-1/p=1",
        ".spark-staging-2",
        ".hive-staging_hive_2026",
    ):
        (dest / name).mkdir(parents=True)
    found = status_of(dest)
    assert (found.holds, found.jobs) == ("nothing", ())
    shown = {one.left_by: one for one in found.leftovers}
    assert {kind: one.paths for kind, one in shown.items()} == {
        "FileOutputCommitter": (f"{dest}/_temporary/0",),
        "empty": (f"{dest}/_temporary/job_7",),
        "unknown": (f"{dest}/_temporary/strange",),
        "Spark's dynamic partition overwrite": (
            f"{dest}/.spark-staging-1",
            f"{dest}/.spark-staging-2",
        ),
        "Hive": (f"{dest}/.hive-staging_hive_2026",),
    }
    assert shown["FileOutputCommitter"].tasks == 2
    assert shown["Hive"].age_seconds == pytest.approx(0, abs=30)
    assert shown["empty"].command == f"ray-committer vacuum {dest}"


def test_a_clean_up_that_was_stopped_is_a_leftover(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest), executor="inline", options=CommitOptions(cleanup=False))
    gone = dest / "_temporary/.gone-1111111111111111"
    (dest / "_temporary/job_1/00").rename(gone)
    (dest / "_temporary/job_1").rmdir()
    (left,) = status_of(dest).leftovers
    assert (left.left_by, left.paths) == ("a clean-up of ray_committer", (str(gone),))
    assert left.command == f"ray-committer vacuum {dest}"
    assert "  of a clean-up, which is at work or was stopped\n" in run("status", str(dest)).stdout
    ray_committer.vacuum_jobs(str(dest))
    assert status_of(dest).leftovers == ()


def test_a_job_that_was_moved_by_mistake_is_an_unfinished_commit(write_job, dest: Path):
    commit(write_job, dest, {"a": "x"})
    write_job({0: {"b": "x"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2", executor="inline")
    (dest / "_temporary/job_2/00").rename(dest / "_temporary/.gone-1111111111111111")
    (dest / "_temporary/job_2").rmdir()
    (left,) = status_of(dest).leftovers
    assert (left.left_by, left.command) == (
        "a process that was paused",
        f"ray-committer vacuum {dest} --dry-run",
    )
    shown = run("status", str(dest), "--watch").stdout
    assert f"{dest}: a commit has begun but not ended; no jobs\n" in shown
    assert run("status", str(dest), "--watch").exit_code == 3
    assert "move it back to" in run("vacuum", str(dest), "--dry-run").stdout


def at_each_request(act: Callable[[int], object]) -> AbstractContextManager[None]:
    """Call `act` with the number of each request before it is made, but not of those that it makes."""
    numbers, is_acting = count(), [False]

    def before(_: StoreCall) -> None:
        if not is_acting[0]:
            is_acting[0] = True
            act(next(numbers))
            is_acting[0] = False

    return opening(before=before)


def test_a_marker_that_a_job_puts_aside_during_the_look_is_none(write_job, dest: Path):
    commit(write_job, dest, {"a": "x"})
    with at_each_request(lambda number: number == 1 and (dest / "_SUCCESS").unlink()):
        found = destination_status(str(dest))
    assert (found.holds, found.last_commit, found.problem) == ("data", None, None)


def test_a_commit_that_ends_at_any_moment_of_a_look_is_seen(write_job, dest: Path):
    for moment in count():
        shutil.rmtree(dest, ignore_errors=True)
        write_job({0: {"a": "x"}})
        ended: list[str] = []

        def end(number: int, moment: int = moment, ended: list[str] = ended) -> None:
            if number == moment:
                ended.append(ray_committer.commit_job(str(dest), executor="inline").job_id)

        with at_each_request(end):
            found = destination_status(str(dest))
        if not ended:
            break
        assert found.jobs or found.holds == "committed", moment
    assert moment > 5


def test_at_each_moment_of_a_commit_there_is_an_answer(write_job, dest: Path):
    """So there is one after a process has died at any request."""
    init_table(str(dest))
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "y"}})
    found: list[DestinationStatus] = []
    with at_each_request(lambda _: found.append(destination_status(str(dest)))):
        ray_committer.commit_job(str(dest), executor="inline")
    assert len(found) > 20
    assert [one.problem for one in found if one.problem] == []
    states = [job.state for one in found for job in one.jobs]
    assert list(dict.fromkeys(states)) == ["running", "recorded", "sealed", "committed"]
    assert {job.problem for one in found for job in one.jobs} == {None}


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_job_that_ends_at_any_moment_of_a_look_spoils_none(write_job, dest: Path, ends):
    end = ray_committer.commit_job if ends == "commit" else ray_committer.abort_job
    looks = 0
    while True:
        write_job({0: {f"{looks}": "x"}}, job_id=f"job_{looks}")
        ended: list[int] = []

        def act(number: int, moment: int = looks, ended: list[int] = ended) -> None:
            if number == moment:
                end(str(dest), f"job_{moment}")
                ended.append(number)

        with at_each_request(act):
            found = destination_status(str(dest))
        assert (found.problem, len(found.jobs)) in ((None, 0), (None, 1)), looks
        if not ended:
            break
        looks += 1
    assert looks > 5
