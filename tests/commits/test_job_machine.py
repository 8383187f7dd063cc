"""Whole jobs in any order on one destination, against a model.

A sequence that fails is shown as it was drawn: to shrink it takes minutes, which
``RAY_COMMITTER_TEST_SHRINK=1`` spends on it.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.machines.job_machine import JobMachine
from tests.tiers import seeds

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_pauses")]

SHRINKS = os.environ.get("RAY_COMMITTER_TEST_SHRINK") == "1"
SEQUENCES = 20


class LocalJobMachine(JobMachine):
    """The same on real files."""

    def new_store(self, kind: int) -> LocalStore:
        self.destination = tempfile.mkdtemp(prefix="ray-committer-")
        return LocalStore(StoreSpec("file"))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.destination, ignore_errors=True)


def run(machine: type[JobMachine], number: int) -> None:
    """Run the sequences that `number` draws.

    Each is a search of its own: the simplest one, which does next to nothing, and one drawn at random.
    Hypothesis compares what the sequences of one search draw after the same beginning, and gives up
    where times and names of files that nobody draws have made a difference.
    """
    phases = (Phase.generate, Phase.shrink) if SHRINKS else (Phase.generate,)
    for sequence in range(SEQUENCES):
        seeded = seed(number * SEQUENCES + sequence)(type(machine.__name__, (machine,), {}))
        run_state_machine_as_test(
            seeded,
            settings=settings(
                max_examples=2,
                stateful_step_count=40,
                database=None,
                deadline=None,
                print_blob=True,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("numbers", seeds(narrow=2, wide=100))
def test_jobs_in_any_order_leave_what_the_model_says(numbers: range):
    for number in numbers:
        run(JobMachine, number)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("numbers", seeds(narrow=1, wide=20))
def test_jobs_in_any_order_on_real_files_leave_what_the_model_says(numbers: range):
    for number in numbers:
        run(LocalJobMachine, number)
