"""Listing jobs costs a few requests each, and what is an estimate says so."""

from __future__ import annotations

import os
import platform
import shutil
import time
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.job_files.job_state import adopt_state, advance
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Heartbeat, Owner, encode
from ray_committer.protocol.state import Phase
from tests.opening import dying, moves_a_file, opening
from tests.stages.support import closed, state_of


def one(dest: Path, **how) -> ray_committer.JobSummary:
    (job,) = ray_committer.list_jobs(str(dest), **how)
    return job


def tasks(number: int) -> dict[int, dict[str, str]]:
    """One more file, and one more byte a file, for each task."""
    return {task: {f"t{task}-{file}": "x" * task for file in range(task + 1)} for task in range(number)}


@pytest.mark.parametrize("number", [1, 40])
def test_a_job_costs_few_requests_however_many_tasks_it_has(
    write_job, dest: Path, calls: list[str], number: int
):
    write_job(tasks(number))
    calls.clear()
    assert one(dest).manifests == number
    assert sorted(calls) == ["get_status", *["list_status"] * 5, "read", "read", "read_state"]


def test_a_job_that_may_not_be_read_is_named_and_the_others_are_listed_and_vacuumed(
    write_job, dest: Path, store
):
    write_job(tasks(1))
    theirs = write_job(tasks(1), job_id="job_2").job_directory
    with opening(closed(store, theirs)):
        own, other = ray_committer.list_jobs(str(dest))
        found = {job.job_id: job.reason for job in ray_committer.vacuum_jobs(str(dest))}
    assert (own.state, own.manifests, own.problem) == ("running", 1, None)
    assert (other.job_id, other.job_attempt, other.state) == ("job_2", None, "unknown")
    assert other.problem == f"{theirs}: no permission to read it"
    assert found == {"job_1": "it has changed recently", "job_2": f"{theirs}: no permission to read it"}


def test_files_and_bytes_are_estimated_by_the_largest_manifest(write_job, dest: Path):
    job = write_job(tasks(40))
    found = one(dest)
    assert found.is_estimate
    assert found.files == pytest.approx(820, rel=0.2)
    largest = max(Path(job.manifests).iterdir(), key=lambda path: path.stat().st_size)
    assert len(decode_manifest(largest.read_bytes(), "m").files) == 40


def test_exactly_is_every_manifest(write_job, dest: Path, calls: list[str]):
    write_job(tasks(40))
    calls.clear()
    found = one(dest, exact=True)
    assert (found.files, found.bytes) == (820, sum(task * (task + 1) for task in range(40)))
    assert not found.is_estimate
    assert calls.count("read") == 42


def test_a_job_of_hadoops_manifest_committer_is_named_as_such(write_job, dest: Path):
    hadoops = Path(__file__).parents[1] / "data/hadoop/manifests/job_202401011200_0007"
    manifests = dest / "_temporary/job_202401011200_0007/00/manifests"
    shutil.copytree(hadoops, manifests)
    job = write_job({0: {"a": "x"}}, job_id="job_1")
    first, second = ray_committer.list_jobs(str(dest))
    assert [(one.job_id, one.state, one.is_hadoops) for one in (second, first)] == [
        ("job_202401011200_0007", "running", True),
        ("job_1", "running", False),
    ]
    shutil.copytree(hadoops, Path(job.manifests), dirs_exist_ok=True)
    assert not ray_committer.list_jobs(str(dest))[0].is_hadoops


def test_a_record_knows_files_and_bytes_without_a_look_at_manifests(write_job, dest: Path, calls):
    write_job(tasks(40))
    ray_committer.record_job(str(dest))
    calls.clear()
    found = one(dest)
    assert (found.state, found.files, found.is_estimate, found.left) == ("recorded", 820, False, None)
    assert calls.count("read") == 4  # the record, whose it is, who else goes on with it, and a table


def crash(dest: Path, after_renames: int) -> None:
    """Commit inline, and die before one more file is moved."""
    with dying(moves_a_file, after_renames + 1):
        ray_committer.commit_job(str(dest), executor="inline")


def test_exactly_counts_what_an_interrupted_commit_has_still_to_move(write_job, dest: Path):
    write_job({0: {"a": "x", "b": "x"}, 1: {"c": "x", "d": "x", "e": "x"}})
    crash(dest, after_renames=2)
    found = one(dest, exact=True)
    assert (found.state, found.files, found.left) == ("recorded", 5, 3)
    assert found.command == f"ray-committer commit {dest} --job-id job_1"
    assert one(dest).left is None
    ray_committer.commit_job(str(dest))
    assert ray_committer.list_jobs(str(dest)) == []


def test_files_of_failed_attempts_are_not_left_to_be_moved(write_job, dest: Path):
    job = write_job({0: {"a": "x"}, 1: {"b": "x"}})
    failed = Path(job.task_attempt("attempt_1_m_000001_7"))
    failed.mkdir()
    (failed / "b").write_text("x")
    (Path(job.task_attempt("attempt_1_m_000001_0")) / "_temporary_of_a_writer").write_text("x")
    crash(dest, after_renames=0)
    assert one(dest, exact=True).left == 2


def test_an_interrupted_abort_is_finished_by_an_abort(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    with dying(lambda call: call.operation == "move_directory"):
        ray_committer.abort_job(str(dest))
    for exact in (False, True):
        found = one(dest, exact=exact)
        assert found.state == "aborting"
        assert found.command == f"ray-committer abort {dest} --job-id job_1"


def test_a_command_names_the_attempt_where_there_are_several_and_is_quoted(tmp_path: Path):
    dest = tmp_path / "a table"
    for attempt in (0, 1):
        options = CommitOptions(job_attempt=attempt)
        ray_committer.setup_job(str(dest), "job_1", options=options)
        with ray_committer.task_attempt(str(dest), "job_1", 0, options=options):
            pass
    ray_committer.record_job(str(dest), "job_1", options=options)
    first, second = ray_committer.list_jobs(str(dest))
    assert first.state == "aborting"  # it gave way to the newer one
    assert first.command == f"ray-committer abort '{dest}' --job-id job_1 --attempt 0"
    assert second.command == f"ray-committer commit '{dest}' --job-id job_1 --attempt 1"
    assert second.undo_command == f"ray-committer abort '{dest}' --job-id job_1 --attempt 1 --undo"


def test_who_is_at_work_on_a_commit_and_since_when_is_known(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    found: list[ray_committer.JobSummary] = []
    with opening(before=lambda call: moves_a_file(call) and found.append(one(dest))):
        ray_committer.commit_job(str(dest), executor="inline")
    (job,) = found
    assert (job.state, job.is_alive) == ("recorded", True)
    assert job.committer == f"process {os.getpid()} on {platform.node()}"
    assert job.begun_seconds == pytest.approx(0, abs=30)
    assert job.command == f"ray-committer commit {dest} --job-id job_1"
    assert job.undo_command is None


def test_a_committer_that_died_is_known_to_be_dead(write_job, dest: Path):
    write_job({0: {"a": "x", "b": "x"}})
    crash(dest, after_renames=1)
    job = one(dest)
    assert (job.state, job.is_alive, job.committer is None) == ("recorded", False, False)
    assert job.undo_command == f"ray-committer abort {dest} --job-id job_1 --undo"


SECOND = Owner("elsewhere", "boot", 7, 8, "second run")


def beat(job: JobAttempt, seconds_ago: float, per_second: float | None = None) -> None:
    """Another process has gone on with a commit, and has given a sign of life this long ago."""
    milliseconds = round((time.time() - seconds_ago) * 1000)
    sign = Heartbeat(owner=SECOND, at_milliseconds=milliseconds, files=1, per_second=per_second)
    Path(job.heartbeat).write_bytes(encode(sign))


def test_who_goes_on_with_the_commit_of_a_dead_process_is_named_and_how_far_it_is(write_job, dest: Path):
    job = write_job({0: {"a": "x", "b": "x"}})
    crash(dest, after_renames=1)
    assert (one(dest).moved, one(dest).moved_seconds) == (None, None)
    beat(job, seconds_ago=5)
    found = one(dest)
    assert (found.is_alive, found.committer) == (True, "process 7 on elsewhere")
    assert (found.moved, found.files, found.undo_command) == (1, 2, None)
    assert found.moved_seconds == pytest.approx(5, abs=15)


@pytest.mark.parametrize(
    ("seconds_ago", "per_second", "expected"),
    [
        (5, 0.02, (0.02, pytest.approx(95, abs=15))),
        (5, 0.5, (0.5, 0.0)),
        (5, None, (None, None)),
        (5, 0.0, (0.0, None)),
        (3600, 0.5, (None, None)),
    ],
)
def test_the_rate_of_a_commit_and_the_time_left_are_those_of_a_live_process(
    write_job, dest: Path, seconds_ago: float, per_second: float | None, expected
):
    job = write_job({0: {"a": "x", "b": "x", "c": "x"}})
    crash(dest, after_renames=1)
    beat(job, seconds_ago, per_second)
    assert (one(dest).per_second, one(dest).seconds_left) == expected


def test_how_far_a_commit_was_is_known_after_all_who_were_at_work_on_it_have_stopped(
    write_job, dest: Path
):
    job = write_job({0: {"a": "x", "b": "x"}})
    crash(dest, after_renames=1)
    beat(job, seconds_ago=3600)
    found = one(dest)
    assert (found.is_alive, found.committer) == (False, f"process {os.getpid()} on {platform.node()}")
    assert (found.moved, found.moved_seconds) == (1, pytest.approx(3600, abs=30))


@pytest.mark.parametrize("phase", [Phase.SEALED, Phase.UNDOING])
def test_what_a_beat_counted_is_not_told_once_all_is_moved_or_moved_back(
    write_job, dest: Path, store, phase: Phase
):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    advance(store, job, adopt_state(store, job), phase)
    beat(job, seconds_ago=0)
    assert (one(dest).state, one(dest).moved) == (phase.value, None)


def test_an_undecided_job_names_no_committer_and_no_command(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    job = one(dest)
    assert (job.state, job.committer, job.begun_seconds) == ("running", None, None)
    assert (job.command, job.undo_command) == (None, None)


@pytest.mark.parametrize(
    ("phase", "command"),
    [
        (Phase.SEALED, "commit {} --job-id job_1"),
        (Phase.COMMITTED, "commit {} --job-id job_1"),
        (Phase.UNDOING, "abort {} --job-id job_1 --undo"),
    ],
)
def test_each_state_after_the_record_names_the_one_command_that_ends_it(
    write_job, dest: Path, store, phase: Phase, command: str
):
    dest.mkdir(exist_ok=True)
    (dest / "a").write_text("old, and replaced where it is")
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), options=CommitOptions(mode=ConflictMode.OVERWRITE))
    advance(store, job, adopt_state(store, job), phase)
    found = one(dest)
    assert found.state == phase.value
    assert found.command == f"ray-committer {command.format(dest)}"
    assert found.undo_command is None


def test_a_sealed_job_whose_old_files_are_put_aside_can_also_be_given_up(write_job, dest: Path, store):
    (dest / "p=1").mkdir(parents=True)
    (dest / "p=1" / "old").write_text("old")
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), options=CommitOptions(mode=ConflictMode.OVERWRITE))
    advance(store, job, adopt_state(store, job), Phase.SEALED)
    found = one(dest)
    assert found.command == f"ray-committer commit {dest} --job-id job_1"
    assert found.undo_command == f"ray-committer abort {dest} --job-id job_1 --undo"


@pytest.mark.parametrize("exact", [False, True])
def test_a_job_whose_state_cannot_be_read_is_not_said_to_be_undecided(
    write_job, dest: Path, store, exact: bool
):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    for path, state in ((job.state, "unknown"), (job.frozen, "recorded")):
        with opening(closed(store, path)):
            (found,) = ray_committer.list_jobs(str(dest), exact=exact)
        assert (found.state, found.problem) == (state, f"{path}: no permission to read it")
    (token,) = Path(job.state).glob("*.state")
    token.rename(token.with_name("strange.state"))
    (found,) = ray_committer.list_jobs(str(dest), exact=exact)
    assert (found.state, found.command, found.undo_command) == ("unknown", None, None)
    assert found.problem is not None


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("broken", ["manifest", "record", "record that is gone"])
def test_a_file_that_cannot_be_read_is_a_problem_of_its_job_alone(
    write_job, dest: Path, store, exact: bool, broken: str
):
    job = write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}}, job_id="job_2")
    path = job.manifest("task_1_m_000000")
    if broken != "manifest":
        ray_committer.record_job(str(dest), "job_1")
        path = job.content(state_of(store, job).record or "")
    Path(path).write_text("{")
    if broken == "record that is gone":
        Path(path).unlink()
    first, second = ray_committer.list_jobs(str(dest), exact=exact)
    assert first.problem is not None
    assert first.problem.startswith(path)
    assert (first.files, second.files, second.problem) == (None, 1, None)


def test_a_set_up_warns_of_a_job_whose_commit_never_ended(write_job, dest: Path, caplog):
    write_job({0: {"a": "x"}}, job_id="job_1")
    ray_committer.setup_job(str(dest), "job_2")
    assert caplog.text == ""
    ray_committer.record_job(str(dest), "job_1")
    ray_committer.setup_job(str(dest), "job_3")
    assert "the commit has begun but not ended (job job_1, recorded)" in caplog.text
    assert f"ray-committer commit {dest} --job-id job_1" in caplog.text
