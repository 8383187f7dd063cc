"""Commits on a strict S3 that answers 409, which means "ask again", and 412, which means "changed"."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import CommitStateUnknownError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.testing import SimulatedCrash, run_abort, run_commit, visible_files, write_job
from ray_committer.testing.harness import run_undo
from tests.doubles import pending_uploads, phase_of
from tests.opening import opening
from tests.servers.fake_s3 import FakeS3, Object, direct_store

pytestmark = pytest.mark.usefixtures("no_pauses")

JOB = new_job_attempt("/t/table", "job_1", 0)
NEW = {"p=1/a": b"a", "p=1/old": b"new", "p=2/b": b"bb"}
OLD = {"p=1/old": b"old", "p=1/gone": b"old", "p=9/gone": b"old"}
MODE = ConflictMode.OVERWRITE
OVERWRITE = CommitOptions(mode=MODE)
CHANGES = ("PUT", "POST", "DELETE")
CODES = ("ConditionalRequestConflict", "OperationAborted")

Run = Callable[[FakeS3], object]


@pytest.fixture
def fake() -> FakeS3:
    """A server with old data, on which a job that replaces it is written."""
    return begun()


def begun() -> FakeS3:
    fake = FakeS3()
    for name, data in OLD.items():
        direct_store(fake).write(f"/t/table/{name}", data)
    write_job(direct_store(fake), JOB, {0: NEW}, mode=MODE)
    return fake


def visible(fake: FakeS3) -> dict[str, bytes]:
    return visible_files(direct_store(fake), JOB.destination)


def refuse_one(fake: FakeS3, number: int, code: str) -> None:
    """The change with this number meets another one; each entry of a deletion counts."""
    seen = itertools.count()
    fake.conflict = lambda method, *_: code if method in CHANGES and next(seen) == number else None


def count(fake: FakeS3, run: Run) -> int:
    seen: list[str] = []
    now = fake.copy()
    now.conflict = lambda method, *_: seen.append(method)
    run(now)
    return sum(method in CHANGES for method in seen)


@pytest.mark.parametrize("code", CODES)
def test_an_overwrite_any_change_of_which_meets_another_one_replaces_the_old_files(
    fake: FakeS3, code: str
):
    for number in range(count(fake, lambda now: run_commit(direct_store(now), JOB, OVERWRITE))):
        now = fake.copy()
        refuse_one(now, number, code)
        report = run_commit(direct_store(now), JOB, OVERWRITE)
        assert (report.outcome, report.changed, report.notices) == (Outcome.COMMITTED, [], []), number
        now.conflict = lambda *_: None
        assert visible(now) == NEW, number
        assert pending_uploads(direct_store(now)) == [], number


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("ends", ["abort", "undo"])
def test_a_job_is_given_up_although_any_change_meets_another_one(ends: str, code: str):
    def end(now: FakeS3) -> bool:
        run = run_abort if ends == "abort" else run_undo
        return run(direct_store(now), JOB)

    def crash(method: str, _: str, query: str) -> None:
        if method == "POST" and "uploadId" in query:
            raise SimulatedCrash(query)

    fake = begun()
    if ends == "undo":
        with pytest.raises(SimulatedCrash):
            run_commit(direct_store(fake, after=crash), JOB, OVERWRITE)
        assert len(visible(fake)) == len(OLD) + 1
    for number in range(count(fake, end)):
        now = fake.copy()
        refuse_one(now, number, code)
        assert end(now), number
        now.conflict = lambda *_: None
        assert visible(now) == OLD, number
        assert pending_uploads(direct_store(now)) == [], number


@pytest.mark.parametrize(
    ("method", "name"),
    [("DELETE", "t/table/p=1/gone"), ("POST", "t/table/p=2/b"), ("POST", "t/table/p=1/old")],
)
def test_what_meets_others_for_ever_is_not_known_and_the_same_command_finishes_it(
    fake: FakeS3, method: str, name: str
):
    def conflict(made: str, of: str, _: str) -> str | None:
        return CODES[0] if (made, of) == (method, name) else None

    fake.conflict = conflict
    options, url = (
        CommitOptions(mode=MODE, retry_seconds=0.1, assume_complete=True),
        "s3://bucket/t/table",
    )
    named = name.removeprefix("t/table/")
    with opening(direct_store(fake)), pytest.raises(CommitStateUnknownError, match=named) as caught:
        ray_committer.commit_job(url, "job_1", executor="inline", options=options)
    assert caught.value.exit_code == 3
    assert phase_of(direct_store(fake), JOB) in (Phase.RECORDED, Phase.SEALED)
    fake.conflict = lambda *_: None
    report = run_commit(direct_store(fake), JOB, OVERWRITE)
    assert (report.outcome, report.changed) == (Outcome.COMMITTED, [])
    assert visible(fake) == NEW


def test_an_old_file_that_was_changed_is_kept_and_the_report_warns_of_it(fake: FakeS3):
    def change(method: str, path: str, _: str) -> None:
        if method == "DELETE" and path.endswith("/p=1/gone"):
            fake.buckets["bucket"]["t/table/p=1/gone"] = Object(b"theirs", "e")

    report = run_commit(direct_store(fake, before=change), JOB, OVERWRITE)
    assert visible(fake) == {**NEW, "p=1/gone": b"theirs"}
    assert report.changed == ["s3://bucket/t/table/p=1/gone"]
    assert msgspec.json.decode(msgspec.json.encode(report))["changed"] == report.changed
    assert [one.split(":")[1] for one in report.notices] == ["//bucket/t/table/p=1/gone"]


def test_an_old_file_that_is_gone_already_is_no_warning(fake: FakeS3):
    """Some servers answer 412 where nothing is that the condition could hold for."""

    def delete(method: str, path: str, _: str) -> None:
        if method == "DELETE" and path.endswith("/p=1/gone"):
            fake.buckets["bucket"].pop("t/table/p=1/gone", None)

    fake.missing = 412
    report = run_commit(direct_store(fake, before=delete), JOB, OVERWRITE)
    assert (report.changed, report.notices) == ([], [])
    assert visible(fake) == NEW
