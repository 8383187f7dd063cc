"""Vacuum removes what is dead and nothing else: no record, and no sign of life for long."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import CommitAbortedError, JobNotFoundError, SettingsError, TaskCommitError
from ray_committer.jobs.task_attempts import run_attempt
from ray_committer.protocol.state import Phase
from ray_committer.testing import StoreCall
from tests.cli.commands import run
from tests.opening import dying, opening
from tests.stages.support import ALIVE, DEAD, bring_to, do_at, record_of, staged_name

DAY = 86_400.0


def make_old(directory: Path, days: float = 8) -> None:
    then = time.time() - days * DAY
    for path in (directory, *directory.rglob("*")):
        os.utime(path, (then, then))


@contextmanager
def aged(directory: Path, days: float = 8) -> Iterator[Callable[[], None]]:
    """Let all in a directory be old until the block ends: a commit refuses files that have changed."""
    times = {path: path.stat().st_mtime_ns for path in (directory, *directory.rglob("*"))}

    def restore() -> None:
        for path, time_ns in times.items():
            if path.exists():
                os.utime(path, ns=(time_ns, time_ns))

    make_old(directory, days)
    yield restore
    restore()


def one(jobs: list[ray_committer.VacuumedJob]) -> ray_committer.VacuumedJob:
    (job,) = jobs
    return job


def test_a_job_that_has_not_changed_for_long_is_removed_and_nothing_stays(write_job, dest: Path, tree):
    write_job({0: {"a": "x" * 10}})
    (dest / "data").write_text("of others")
    make_old(dest / "_temporary")
    removed = one(ray_committer.vacuum_jobs(str(dest)))
    assert (removed.job_id, removed.removed, removed.reason, removed.files) == ("job_1", True, None, 3)
    assert removed.age_seconds == pytest.approx(8 * DAY, abs=60)
    assert not (dest / "_temporary").exists()
    assert tree() == {"data": "of others"}


SIGNS: dict[str, Callable[[Path], Path]] = {
    "a file that a task writes": lambda job: job / "tasks" / "attempt_1_m_000000_0" / "p=1" / "a",
    "a manifest": lambda job: job / "manifests" / "task_1_m_000000-manifest.json",
    "a task attempt that has just begun": lambda job: job / "tasks" / "attempt_1_m_000000_0",
    "a task attempt that was removed": lambda job: job / "tasks",
    "the set-up": lambda job: job,
}


SIGNS_OF_WRITERS: dict[str, Callable[[Path], Path]] = {
    "a file that a task writes": lambda job: next((job / "tasks" / "in").glob("*/*")),
    "a directory of the output": lambda job: next((job / "tasks" / "in").iterdir()),
    "a file of the destination": lambda job: next((job / "tasks" / "root").glob("*/*")),
    "an attempt that was aborted": lambda job: next((job / "tasks" / "root").iterdir()),
    "a new directory": lambda job: job / "tasks" / "in",
}


@pytest.mark.parametrize("sign", SIGNS_OF_WRITERS)
def test_a_job_whose_writers_show_any_sign_of_life_is_kept(write_job, dest: Path, sign: str):
    job = write_job({0: {staged_name("p=1/a"): "x", staged_name("b"): "x"}})
    with aged(dest / "_temporary"):
        now = time.time()
        os.utime(SIGNS_OF_WRITERS[sign](Path(job.directory)), (now, now))
        assert one(ray_committer.vacuum_jobs(str(dest))).reason == "it has changed recently"
    make_old(dest / "_temporary")
    assert one(ray_committer.vacuum_jobs(str(dest))).files == 4
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize("sign", SIGNS)
def test_a_job_with_any_sign_of_life_is_kept(write_job, dest: Path, sign: str):
    job = write_job({0: {"p=1/a": "x"}})
    with aged(dest / "_temporary"):
        now = time.time()
        os.utime(SIGNS[sign](Path(job.directory)), (now, now))
        kept = one(ray_committer.vacuum_jobs(str(dest)))
    assert (kept.removed, kept.reason, kept.command) == (False, "it has changed recently", None)
    ray_committer.commit_job(str(dest))
    assert (dest / "p=1" / "a").exists()


@pytest.mark.parametrize("seconds", [0, -1, 60, 3599])
def test_less_than_an_hour_is_refused(write_job, dest: Path, seconds: float):
    write_job({0: {"a": "x"}})
    make_old(dest / "_temporary")
    with pytest.raises(SettingsError, match="at least 3600"):
        ray_committer.vacuum_jobs(str(dest), older_than_seconds=seconds)
    assert (dest / "_temporary").exists()


def test_a_dry_run_says_the_same_and_removes_nothing(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    make_old(dest / "_temporary")
    planned = one(ray_committer.vacuum_jobs(str(dest), dry_run=True))
    assert planned.removed
    assert ray_committer.list_jobs(str(dest))[0].manifests == 1
    done = one(ray_committer.vacuum_jobs(str(dest)))
    assert (done.directory, done.files, done.bytes) == (planned.directory, planned.files, planned.bytes)


def test_a_job_with_a_record_is_never_touched_and_its_command_finishes_it(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    with aged(dest / "_temporary", days=1000):
        kept = one(ray_committer.vacuum_jobs(str(dest)))
    assert (kept.removed, kept.reason) == (False, "its commit has begun")
    assert kept.command == f"ray-committer commit {dest} --job-id job_1"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("operation", ["move_directory", "delete_directory"])
def test_an_abort_that_was_interrupted_is_finished_however_old_it_is(
    write_job, dest: Path, operation: str
):
    write_job({0: {"a": "x"}})
    with dying(lambda call: call.operation == operation):
        ray_committer.abort_job(str(dest))
    found = [job for job in ray_committer.vacuum_jobs(str(dest)) if job.removed]
    assert [job.had_ended for job in found] == [operation == "delete_directory"]
    assert not list(dest.rglob("*-manifest.json"))


def test_what_an_interrupted_clean_up_took_away_is_removed_and_told(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    with dying(lambda call: call.operation == "delete_directory"):
        ray_committer.commit_job(str(dest), executor="inline")
    planned = [job for job in ray_committer.vacuum_jobs(str(dest), dry_run=True) if job.had_ended]
    assert [job.job_id.startswith(".gone-") for job in planned] == [True]
    assert list((dest / "_temporary").glob(".gone-*"))
    swept = [job for job in ray_committer.vacuum_jobs(str(dest)) if job.had_ended]
    assert [(job.job_id, job.removed) for job in swept] == [(planned[0].job_id, True)]
    assert not list((dest / "_temporary").glob(".gone-*"))


def test_of_what_was_taken_away_and_tells_no_state_only_age_decides(write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    taken = dest / "_temporary" / ".gone-0123456789abcdef"
    Path(job.directory).rename(taken)
    Path(job.job_directory).rmdir()
    shutil.rmtree(taken / "state")
    assert one(ray_committer.vacuum_jobs(str(dest))).reason == "it has changed recently"
    make_old(dest / "_temporary")
    assert one(ray_committer.vacuum_jobs(str(dest))).removed
    assert not taken.exists()


@pytest.mark.parametrize("moment", ["before the look", "during the look"])
@pytest.mark.parametrize("is_alive", [True, False])
def test_an_old_job_that_is_declared_is_kept_while_its_committer_is_alive(
    write_job, dest: Path, store, moment: str, is_alive: bool
):
    job = write_job({0: {"a": "x"}})
    began: list[StoreCall] = []

    def declare(call: StoreCall) -> None:
        if call.operation == "list_files" and not began:
            began.append(call)
            now = time.time_ns() // 1_000_000
            record = record_of(owner=ALIVE if is_alive else DEAD, created_milliseconds=now)
            bring_to(store, Phase.DECLARED, job=job, record=record)
            make_old(dest / "_temporary")

    if moment == "before the look":
        declare(StoreCall("list_files", ()))
    make_old(dest / "_temporary")
    with opening(before=declare):
        found = one(ray_committer.vacuum_jobs(str(dest)))
    assert (found.removed, Path(job.directory).exists()) == (not is_alive, is_alive)
    assert found.reason == ("process 1 on elsewhere is at work on its commit" if is_alive else None)


def test_a_commit_that_begins_at_the_last_moment_wins(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    with aged(dest / "_temporary") as restore:

        def begin() -> None:
            restore()
            ray_committer.record_job(str(dest))

        with opening(before=do_at("advance", begin)):
            kept = one(ray_committer.vacuum_jobs(str(dest)))
    assert (kept.removed, kept.reason) == (False, "its commit has just begun")
    assert kept.command == f"ray-committer commit {dest} --job-id job_1"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize(
    ("operation", "command"), [("move_directory", "abort"), ("advance", None)], ids=str
)
def test_a_job_that_cannot_be_removed_is_kept_with_the_command_that_can_do_it_later(
    write_job, dest: Path, operation: str, command: str | None
):
    write_job({0: {"a": "x"}})
    make_old(dest / "_temporary")

    def refuse(call: StoreCall) -> None:
        if call.operation == operation:
            raise PermissionError(1, "not permitted", call.paths[0])

    with opening(before=refuse):
        kept = one(ray_committer.vacuum_jobs(str(dest)))
    assert (kept.removed, "not permitted" in (kept.reason or "")) == (False, True)
    assert kept.command == (f"ray-committer {command} {dest} --job-id job_1" if command else None)
    assert ray_committer.abort_job(str(dest), "job_1")


def test_a_job_that_others_committed_during_the_look_was_not_removed_by_it(write_job, dest: Path, tree):
    """Nor does a ``_SUCCESS`` tell of it, since another job has been committed after it."""
    job = write_job({0: {"a": "x"}})
    looks: list[StoreCall] = []

    with aged(dest / "_temporary") as restore:

        def commit(call: StoreCall) -> None:
            if call.operation == "read_state" and call.paths[0] == job.state:
                looks.append(call)
                if len(looks) == 2:
                    restore()
                    ray_committer.commit_job(str(dest), job.job_id)
                    write_job({0: {"b": "y"}}, job_id="job_2")
                    ray_committer.commit_job(str(dest), "job_2")

        with opening(before=commit):
            kept = one(ray_committer.vacuum_jobs(str(dest)))
    assert (kept.removed, kept.reason) == (False, "it has ended in the meantime")
    assert tree() == {"a": "x", "b": "y"}


def test_a_vacuum_that_begins_first_stops_the_commit(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    make_old(dest / "_temporary")
    with dying(lambda call: call.operation == "move_directory"):
        ray_committer.vacuum_jobs(str(dest))
    with pytest.raises(CommitAbortedError, match="ray-committer abort"):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


@pytest.mark.parametrize("place", ["attempt_1_m_000001_0/p=1", f"in/{'0' * 32}", "root/01"])
def test_what_a_task_wrote_that_woke_after_the_clean_up_is_removed(write_job, dest: Path, place: str):
    job = write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest))
    late = Path(job.directory) / "tasks" / place
    late.mkdir(parents=True)
    (late / "b-0000000100000000").write_text("late")
    with pytest.raises(TaskCommitError, match="exists already"):
        ray_committer.setup_job(str(dest), job.job_id)
    with (
        pytest.raises(TaskCommitError, match="not a job that was set up"),
        run_attempt(str(dest), job.job_id, 1, 0, chooses_names=True),
    ):
        pass
    report = ray_committer.commit_job(str(dest), job.job_id)
    assert report.outcome is Outcome.ALREADY_COMMITTED
    assert not one(ray_committer.vacuum_jobs(str(dest))).removed
    make_old(dest / "_temporary")
    assert one(ray_committer.vacuum_jobs(str(dest))).removed
    assert not (dest / "_temporary").exists()


def test_what_the_doctor_and_empty_jobs_left_is_removed(dest: Path):
    (dest / "_temporary" / "doctor-1" / "x").mkdir(parents=True)
    (dest / "_temporary" / "doctor-1" / "x" / "proof").write_text("x")
    (dest / "_temporary" / "job_1").mkdir()
    make_old(dest / "_temporary")
    assert [job.removed for job in ray_committer.vacuum_jobs(str(dest))] == [True, True]
    assert not (dest / "_temporary").exists()


def test_a_wrong_destination_is_an_error_and_a_quiet_one_is_not(dest: Path):
    with pytest.raises(JobNotFoundError, match="does not exist"):
        ray_committer.vacuum_jobs(str(dest))
    dest.mkdir()
    assert ray_committer.vacuum_jobs(str(dest)) == []


# Directories without a job


EMPTY: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "a job's directory": ("job_1",),
    "an attempt's directory": ("job_1/00",),
    "directories that were taken away": (".gone-1", ".gone-2"),
    "all of them": ("job_1/00", "job_2", ".gone-1"),
}


@pytest.mark.parametrize("names", EMPTY.values(), ids=EMPTY)
def test_empty_directories_go_with_temporary_and_are_not_named_as_jobs(
    write_job, dest: Path, tree, names: tuple[str, ...]
):
    write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest))
    (dest / "_temporary").mkdir()
    for name in names:
        (dest / "_temporary" / name).mkdir(parents=True)
    make_old(dest / "_temporary")
    planned = ray_committer.vacuum_jobs(str(dest), dry_run=True)
    assert (dest / "_temporary").exists()
    found = ray_committer.vacuum_jobs(str(dest))
    assert not (dest / "_temporary").exists()
    for one in (*planned, *found):
        assert (one.removed, one.had_ended) == (True, True)
    assert len(planned) == len(found) == len(names)
    assert run("vacuum", str(dest)).stdout == f"{dest}: 0 of 0 jobs removed\n"
    assert tree() == {"a": "x"}


def test_an_empty_directory_that_is_young_stays(dest: Path):
    (dest / "_temporary" / "job_1").mkdir(parents=True)
    found = one(ray_committer.vacuum_jobs(str(dest)))
    assert (found.removed, found.had_ended, found.reason) == (False, False, "it has changed recently")
    assert (dest / "_temporary" / "job_1").exists()


def test_what_is_left_of_ended_jobs_is_not_counted_among_the_jobs(dest: Path):
    (dest / "_temporary" / "job_1").mkdir(parents=True)
    make_old(dest / "_temporary")
    lines = run("vacuum", str(dest)).stdout.splitlines()
    assert lines[:2] == [
        f"{dest}: 0 of 0 jobs removed",
        "job_1: removed, the rest of a job that had ended",
    ]
