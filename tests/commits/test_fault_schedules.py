"""Whole commits under random faults, on every kind of store: run again, each must come out right.

400 schedules in `make test`, 10,000 in `make test-all`, spread over all stores, modes and executors. A
failure names the seed, which RAY_COMMITTER_TEST_SEED runs alone.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from ray_committer import Outcome
from ray_committer.errors import RayCommitterError
from ray_committer.options import CommitOptions
from ray_committer.protocol import plan
from ray_committer.stages import rename_files
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, chaos_executor, run_commit
from tests.doubles import NAMES, SCENARIOS, Double, Scenario, check_unfinished, doubles
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule
from tests.tiers import seeds

pytestmark = pytest.mark.usefixtures("no_pauses")

ONLY_SEED = os.environ.get("RAY_COMMITTER_TEST_SEED")
RUNS_UNTIL_DONE = 3
COMBINATIONS = list(itertools.product(NAMES, SCENARIOS, ("inline", "chaos")))
COMBINATION_NAMES = [f"{name} {scenario.name} {executor}" for name, scenario, executor in COMBINATIONS]


@dataclass(frozen=True)
class Run:
    """One commit under faults, wholly given by its seed and its combination."""

    seed: int
    store: StoreOperations
    double: Double
    scenario: Scenario
    executor: str
    schedule: FaultSchedule
    options: CommitOptions
    attempts: int = 1
    shard_files: int = 250

    def commit(self, store: StoreOperations, run: int) -> Outcome:
        job = self.double.job
        seed = 10 * self.seed + run
        executor = chaos_executor(store, job, seed) if self.executor == "chaos" else None
        with (
            patch.object(rename_files, "ATTEMPTS", self.attempts),
            patch.object(plan, "SMALLEST_SHARD", self.shard_files),
            patch.object(plan, "LARGEST_SHARD", self.shard_files),
        ):
            return run_commit(store, job, self.options, executor=executor).outcome

    def __str__(self) -> str:
        return (
            f"seed {self.seed} on {self.double.name}, {self.scenario.name}, {self.executor}: "
            f"{self.schedule!r}"
        )


def draw(run: Run) -> Run:
    """Retries wait, so only some runs have them; whether files are validated differs, too."""
    dice = random.Random(run.seed)
    return replace(
        run,
        attempts=1 if dice.random() < 0.9 else 2,
        options=replace(run.options, validate=dice.choice((None, True, False))),
        shard_files=dice.choice((1, 2, 250)),
    )


def finish(run: Run) -> Counter[str]:
    """Commit once under faults, then without until it is done; returns what went wrong on the way."""
    seen: Counter[str] = Counter()
    store: StoreOperations = run.schedule.wrap(run.store, sleep=lambda seconds: None)
    for number in range(1 + RUNS_UNTIL_DONE):
        try:
            outcome = run.commit(store, number)
        except (RayCommitterError, OSError, SimulatedCrash) as e:
            seen[type(e).__name__] += 1
            check_unfinished(run.store, run.double.job, run.scenario)
        else:
            assert outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
            if number:
                run.double.check_finished(run.store, run.scenario.visible)
                return seen
        store = run.store
    raise AssertionError(f"not done after {RUNS_UNTIL_DONE} runs without faults: {seen}")


def count_calls(double: Double, options: CommitOptions) -> int:
    calls: list[StoreCall] = []
    run_commit(WrappedStore(double.fresh(), before=calls.append), double.job, options)
    return len(calls)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(COMBINATIONS)), ids=COMBINATION_NAMES)
@pytest.mark.parametrize("drawn", seeds(narrow=150, wide=10_000))
def test_a_commit_under_any_schedule_of_faults_is_finished_by_running_it_again(
    tmp_path: Path, number: int, drawn: range
):
    name, scenario, executor = COMBINATIONS[number]
    double = doubles(tmp_path)[name]
    double.prepare(scenario, beside_another_job=True)
    calls = count_calls(double, scenario.options)
    own = range(drawn.start + number, drawn.stop, len(COMBINATIONS))
    for seed in [int(ONLY_SEED)] if ONLY_SEED else own:
        schedule = FaultSchedule.from_seed(seed, calls)
        run = Run(seed, double.fresh(), double, scenario, executor, schedule, scenario.options)
        check(draw(run))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        pytest.param(name, scenario, id=f"{scenario.name}-{name}", marks=marks)
        for name, kept in (("memory etag directories", "overwrite"), ("memory size only flat", "append"))
        for scenario in SCENARIOS
        for marks in [() if scenario.name == kept else pytest.mark.wide]
    ],
)
def test_a_commit_under_any_one_fault_at_any_call_is_finished_by_running_it_again(
    tmp_path: Path, name: str, scenario: Scenario
):
    double = doubles(tmp_path)[name]
    double.prepare(scenario, beside_another_job=True)
    options = replace(scenario.options, validate=False)
    calls = count_calls(double, options)
    for kind, number in itertools.product(FaultKind, range(1, calls + 1)):
        schedule = FaultSchedule(0, calls, (Fault(kind, number),))
        check(Run(0, double.fresh(), double, scenario, "inline", schedule, options))


def check(run: Run) -> None:
    """Fail with what is needed to run it again."""
    try:
        finish(run)
    except (AssertionError, RayCommitterError, OSError) as e:
        pytest.fail(f"{run}\n{type(e).__name__}: {e}")
