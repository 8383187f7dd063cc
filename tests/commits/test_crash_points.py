"""Crash a commit before, after and inside every store call, on every kind of store; run it again.

Complete: every file of the job is there with its content. Exclusive: nothing else is. Nothing is left
in ``_temporary``. Where a URL leads to the store, the second run knows only that, as a person at night
does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore, link_and_unlink
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, crash_at, run_commit
from tests.doubles import NAMES, NEW, SCENARIOS, Double, Scenario, check_unfinished, doubles


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return request.param


@pytest.fixture(params=NAMES)
def double(request: pytest.FixtureRequest, tmp_path: Path, scenario: Scenario) -> Double:
    """A destination with old files and an uncommitted job, to be copied for each crash."""
    double = doubles(tmp_path)[request.param]
    double.prepare(scenario, beside_another_job=False)
    return double


def count_calls(double: Double, scenario: Scenario) -> int:
    calls: list[StoreCall] = []
    run_commit(WrappedStore(double.fresh(), before=calls.append), double.job, scenario.options)
    return len(calls)


def crashes(total: int) -> Iterator[tuple[str, int]]:
    for when in ("before", "after"):
        for number in range(1, total + 1):
            yield when, number


def finish(double: Double, store: StoreOperations, scenario: Scenario) -> None:
    """Run the same command; once the job is decided nobody has to vouch for its tasks again."""
    decided = any(map(store.get_status, (double.job.success, double.job.commit_record)))
    options = replace(scenario.options, assume_complete=not decided)
    if double.is_local:
        report = ray_committer.commit_job(double.job.destination, executor="inline", options=options)
    else:
        report = run_commit(store, double.job, options)
    assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
    double.check_finished(store, scenario.visible)


def test_a_commit_crashed_at_any_store_call_is_finished_by_running_it_again(
    double: Double, scenario: Scenario
):
    total = count_calls(double, scenario)
    assert total > 15
    for when, number in crashes(total):
        store = double.fresh()
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, **{when: crash_at(number)}), double.job, scenario.options)
        check_unfinished(store, double.job, scenario)
        finish(double, store, scenario)


def test_a_commit_crashed_twice_is_finished_by_the_third_run(double: Double, scenario: Scenario):
    total = count_calls(double, scenario)
    for number in range(3, total, 3):
        store = double.fresh()
        for again in (number, 7):
            crashing = WrappedStore(store, after=crash_at(again))
            with contextlib.suppress(SimulatedCrash):  # the second may have too few calls left
                run_commit(crashing, double.job, scenario.options, nonce=f"nonce-{again}")
        finish(double, store, scenario)


def test_a_torn_write_is_never_taken_for_the_whole(double: Double, scenario: Scenario):
    writes: list[StoreCall] = []
    counting = WrappedStore(
        double.fresh(),
        before=lambda call: writes.append(call) if call.operation == "write" else None,
    )
    run_commit(counting, double.job, scenario.options)
    assert len(writes) == (4 if "generation" in double.name else 2)
    for torn in writes:

        def tear(call: StoreCall, data: bytes, torn: StoreCall = torn) -> bytes:
            return data[: len(data) // 2] if call.number == torn.number else data

        store = double.fresh()
        crashing = WrappedStore(store, after=crash_at(torn.number), write_data=tear)
        with pytest.raises(SimulatedCrash):
            run_commit(crashing, double.job, scenario.options)
        finish(double, store, scenario)


def test_a_crash_between_link_and_unlink_is_finished(tmp_path: Path, scenario: Scenario):
    double = doubles(tmp_path)["local link+unlink"]
    double.prepare(scenario, beside_another_job=False)
    crashed = 0
    for victim in range(1, len(NEW) + 2):
        store = double.fresh()
        renames = iter(range(1, 100))

        def half(source: str, dest: str, renames=renames, victim=victim) -> None:
            if next(renames) == victim:
                os.link(source, dest)
                raise SimulatedCrash(source)
            link_and_unlink(source, dest)

        try:
            run_commit(LocalStore(StoreSpec("file"), rename=half), double.job, scenario.options)
        except SimulatedCrash:
            crashed += 1
        finish(double, store, scenario)
    assert crashed >= len(NEW)  # an overwritten name is not linked but replaced
