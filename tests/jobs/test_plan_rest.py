"""A plan of a commit that has begun names what is left, and a plan of one that has ended says so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, JobPlan
from ray_committer.job_files.job_state import adopt_state, advance
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, visible_files
from ray_committer.testing import write_job as write_to
from tests.cli.commands import run
from tests.commits.test_adopted_jobs import opened
from tests.opening import dying, moves_a_file, opening
from tests.servers.fake_s3 import FakeS3, direct_store
from tests.stages.support import JOB, KINDS, state_of

FILES = {0: {"p=1/a": b"x", "p=2/b": b"yy"}, 1: {"p=2/c": b"zzz"}}
SIZES = {name: len(data) for files in FILES.values() for name, data in files.items()}
TABLE = "/table"


def stopped_at(renames: int, kind: str = "directories") -> MemoryStore:
    """A store with the job, whose commit died before the rename of that number, from 1 on."""
    store = KINDS[kind]()
    write_to(store, JOB, FILES)
    with dying(moves_a_file, renames, store):
        ray_committer.commit_job(TABLE, "job_1", executor="inline")
    return store


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_in_place_and_what_is_left_are_told_apart(kind: str, number: int):
    store = stopped_at(number, kind)
    moved = visible_files(store, TABLE)
    assert len(moved) == number - 1
    with opening(store):
        plan = ray_committer.plan_job(TABLE, "job_1")
        check(plan, moved)
        assert ray_committer.plan_job(TABLE, "job_1", first=1).first_renames == plan.first_renames[:1]
        done = ray_committer.commit_job(TABLE, "job_1", executor="inline")
    assert done.moved == plan.files - plan.moved


def test_the_renames_that_are_left_are_in_the_order_of_the_manifests_however_long_each_takes():
    def be_late(call: StoreCall) -> None:
        if call.operation == "list_files" and call.paths[0].endswith("_m_000000_0"):
            time.sleep(0.05)

    with opening(stopped_at(1), before=be_late):
        plan = ray_committer.plan_job(TABLE, "job_1")
    assert [one.destination[-5:] for one in plan.first_renames] == ["p=1/a", "p=2/b", "p=2/c"]


def check(plan: JobPlan, moved: dict[str, bytes]) -> None:
    left = {f"{plan.destination}/{name}": size for name, size in SIZES.items() if name not in moved}
    assert (plan.state, plan.files, plan.bytes) == ("recorded", 3, 6)
    assert (plan.moved, plan.moved_bytes) == (len(moved), sum(map(len, moved.values())))
    assert {one.destination: one.size for one in plan.first_renames} == left
    assert list(plan.first_directories) == sorted({name.rpartition("/")[0] for name in left})
    assert plan.directories == len(plan.first_directories)


def test_fewer_requests_are_left():
    plans = []
    for number in (2, 3):  # with files of one directory left
        with opening(stopped_at(number)):
            plans.append(ray_committer.plan_job(TABLE, "job_1"))
    assert plans[0].requests - plans[1].requests == 1


@pytest.mark.parametrize("number", [0, 1, 3])
def test_on_s3_pending_uploads_are_what_is_left(number: int):
    fake = FakeS3()
    write_to(direct_store(fake), new_job_attempt("/t", "job_1", 0), FILES)
    completed: list[str] = []

    def die(method: str, name: str, query: str) -> None:
        if method == "POST" and "uploadId=" in query:
            if len(completed) == number:
                raise SimulatedCrash(name)
            completed.append(name.removeprefix("/bucket/t/"))
        elif len(completed) == number == len(SIZES):
            raise SimulatedCrash(name)

    with opened(fake, before=die), pytest.raises(SimulatedCrash):
        ray_committer.commit_job("s3://bucket/t", "job_1", executor="inline")
    with opened(fake):
        plan = ray_committer.plan_job("s3://bucket/t", "job_1")
        assert ray_committer.list_jobs("s3://bucket/t", exact=True)[0].left == len(SIZES) - number
    check(plan, {one: b"x" * SIZES[one] for one in completed})


def test_a_sealed_job_has_all_files_in_place(write_job, dest: Path, store):
    job = write_job({0: {"p=1/a": "x", "p=2/b": "yy"}})
    ray_committer.record_job(str(dest))
    advance(store, job, adopt_state(store, job), Phase.SEALED)
    for name in ("p=1/a", "p=2/b"):
        (dest / name).parent.mkdir()
        next(Path(job.directory).rglob(name)).rename(dest / name)
    shown = run("commit", str(dest), "--dry-run").stdout
    assert "its commit has begun: 2 of 2 files in place, of 1 task\n" in shown
    assert "would move" not in shown
    assert "would then be committed and cleaned up" in shown


def test_files_that_are_lost_are_not_said_to_be_in_place(write_job, dest: Path):
    job = write_job({0: {"p=1/a": "x", "p=2/b": "yy"}})
    ray_committer.record_job(str(dest))
    next(Path(job.directory).rglob("p=1/a")).unlink()
    shown = run("commit", str(dest), "--dry-run").stdout
    assert "its commit has begun: at most 1 of 2 files in place, of 1 task\n" in shown


def test_a_clean_up_that_has_deleted_the_record_counts_no_file():
    store = KINDS["flat"]()
    write_to(store, JOB, FILES)
    with opening(store):
        ray_committer.commit_job(TABLE, options=CommitOptions(cleanup=False))
        store.delete_file(JOB.content(state_of(store).record or ""))
        shown = run("commit", TABLE, "--dry-run").stdout
    assert "  is committed, and would be cleaned up\n" in shown


def test_a_committed_job_has_its_clean_up_left_and_then_nothing(write_job, dest: Path):
    write_job({0: {"p=1/a": "x"}})
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    plan = ray_committer.plan_job(str(dest))
    assert (plan.state, plan.files, plan.moved, plan.moved_bytes) == ("committed", 1, 1, 1)
    assert plan.requests > 0
    ray_committer.commit_job(str(dest))
    for job_id in (None, "job_1"):
        plan = ray_committer.plan_job(str(dest), job_id)
        assert (plan.job_id, plan.state, plan.requests) == ("job_1", "cleaned up", 0)
    result = run("commit", str(dest), "--dry-run")
    assert result.exit_code == 0
    assert "is committed and cleaned up: nothing is left to do" in result.stdout
