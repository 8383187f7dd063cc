"""Whole jobs in any order on one destination, against a model; longer if the environment says so."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing.job_machine import JobMachine

SCHEDULES = int(os.environ.get("RAY_COMMITTER_TEST_SCHEDULES", "400"))


def profile(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


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


TestJobs = pytest.mark.timeout(3600)(JobMachine.TestCase)
TestJobs.settings = profile(SCHEDULES // 4)
TestLocalJobs = pytest.mark.timeout(3600)(LocalJobMachine.TestCase)
TestLocalJobs.settings = profile(SCHEDULES // 20)
