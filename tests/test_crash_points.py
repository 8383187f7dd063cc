"""Crash a commit before, after and inside every store call; the same command must then finish it.

Complete: every file of the job is there with its content. Exclusive: nothing else is. Nothing is left
in ``_temporary``. The second run knows only the destination, as a person at night does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore, link_and_unlink
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit
from tests.conftest import visible_files

TASKS = {
    0: {"p=1/a.txt": "a", "p=2/b.txt": "bb"},
    1: {"p=1/c.txt": "ccc", "top.txt": ""},
    2: {},
}
NEW = {name: text for files in TASKS.values() for name, text in files.items()}
OLD = {"p=1/old.txt": "old", "p=9/old.txt": "older", "p=2/b.txt": "old of the same name"}


@dataclass(frozen=True)
class Scenario:
    """A job, how it is committed, and what must be visible in the end."""

    name: str
    old: dict[str, str]
    options: CommitOptions
    visible: dict[str, str]


APPEND_OLD = {name: text for name, text in OLD.items() if name not in NEW}
SCENARIOS = [
    Scenario("append", APPEND_OLD, CommitOptions(), {**APPEND_OLD, **NEW}),
    Scenario("overwrite", OLD, CommitOptions(mode=ConflictMode.OVERWRITE), NEW),
]


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return request.param


@pytest.fixture
def prepared(tmp_path: Path, scenario: Scenario, write_job, dest: Path) -> Path:
    """A destination with old files and an uncommitted job, to be copied for each crash."""
    for name, text in scenario.old.items():
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        (dest / name).write_text(text)
    write_job(TASKS)
    return dest


def fresh_copy(prepared: Path) -> Path:
    """The prepared destination again, at the same path, since manifests hold absolute paths."""
    saved = prepared.with_name("saved")
    if not saved.exists():
        shutil.copytree(prepared, saved)
    shutil.rmtree(prepared)
    shutil.copytree(saved, prepared)
    return prepared


def crash_at(number: int) -> Callable[[StoreCall], None]:
    calls = iter(range(1, number + 1))

    def hook(call: StoreCall) -> None:
        if next(calls) == number:
            raise SimulatedCrash(call)

    return hook


def count_calls(job: JobAttempt, options: CommitOptions) -> int:
    calls: list[StoreCall] = []
    run_commit(WrappedStore(LocalStore(StoreSpec("file")), before=calls.append), job, options)
    return len(calls)


def crashes(total: int) -> Iterator[tuple[str, int]]:
    for when in ("before", "after"):
        for number in range(1, total + 1):
            yield when, number


def finish(dest: Path, scenario: Scenario) -> None:
    """Run the same command; once the job is decided nobody has to vouch for its tasks again."""
    decided = (dest / "_SUCCESS").exists() or any(dest.rglob("_COMMIT.json"))
    options = replace(scenario.options, assume_complete=not decided)
    report = ray_committer.commit_job(str(dest), executor="inline", options=options)
    assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
    assert visible_files(dest) == scenario.visible
    assert (dest / "_SUCCESS").is_file()
    assert not (dest / "_temporary").exists()


def test_a_commit_crashed_at_any_store_call_is_finished_by_running_it_again(
    prepared: Path, scenario: Scenario
):
    job = new_job_attempt(str(prepared), "job_1", 0)
    fresh_copy(prepared)
    total = count_calls(job, scenario.options)
    assert total > 20
    for when, number in crashes(total):
        fresh_copy(prepared)
        store = WrappedStore(LocalStore(StoreSpec("file")), **{when: crash_at(number)})
        with pytest.raises(SimulatedCrash):
            run_commit(store, job, scenario.options)
        assert set(scenario.old) <= set(visible_files(prepared)) | _removable(prepared)
        finish(prepared, scenario)


def _removable(dest: Path) -> set[str]:
    """Old files may be gone only once every new file is in place."""
    return set(OLD) if set(NEW) <= set(visible_files(dest)) else set()


def test_a_commit_crashed_twice_is_finished_by_the_third_run(prepared: Path, scenario: Scenario):
    job = new_job_attempt(str(prepared), "job_1", 0)
    fresh_copy(prepared)
    total = count_calls(job, scenario.options)
    for number in range(3, total, 3):
        fresh_copy(prepared)
        for again in (number, 7):
            store = WrappedStore(LocalStore(StoreSpec("file")), after=crash_at(again))
            with contextlib.suppress(SimulatedCrash):  # the second may have too few calls left
                run_commit(store, job, scenario.options, nonce=f"nonce-{again}")
        finish(prepared, scenario)


def test_a_torn_write_is_never_taken_for_the_whole(prepared: Path, scenario: Scenario):
    job = new_job_attempt(str(prepared), "job_1", 0)
    fresh_copy(prepared)
    writes: list[StoreCall] = []
    run_commit(
        WrappedStore(
            LocalStore(StoreSpec("file")),
            before=lambda call: writes.append(call) if call.operation == "write" else None,
        ),
        job,
        scenario.options,
    )
    assert len(writes) == 2
    for torn in writes:

        def tear(call: StoreCall, data: bytes, torn: StoreCall = torn) -> bytes:
            return data[: len(data) // 2] if call.paths == torn.paths else data

        def crash(call: StoreCall, torn: StoreCall = torn) -> None:
            if call == torn:
                raise SimulatedCrash(call)

        fresh_copy(prepared)
        store = WrappedStore(LocalStore(StoreSpec("file")), after=crash, write_data=tear)
        with pytest.raises(SimulatedCrash):
            run_commit(store, job, scenario.options)
        finish(prepared, scenario)


def test_a_crash_between_link_and_unlink_is_finished(prepared: Path, scenario: Scenario):
    job = new_job_attempt(str(prepared), "job_1", 0)
    crashed = 0
    for victim in range(1, len(NEW) + 2):
        fresh_copy(prepared)
        renames = iter(range(1, 100))

        def half(source: str, dest: str, renames=renames, victim=victim) -> None:
            if next(renames) == victim:
                os.link(source, dest)
                raise SimulatedCrash(source)
            link_and_unlink(source, dest)

        try:
            run_commit(LocalStore(StoreSpec("file"), rename=half), job, scenario.options)
        except SimulatedCrash:
            crashed += 1
        finish(prepared, scenario)
    assert crashed >= len(NEW)  # an overwritten name is not linked but replaced
