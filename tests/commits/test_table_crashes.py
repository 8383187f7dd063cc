"""Jobs of a table that die, or lose an answer, at each request to the log, on local files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from tests.table_crashes import CASES_ON_FILES, check_finished, check_resolved

pytestmark = pytest.mark.slow


@pytest.fixture
def store() -> StoreOperations:
    return LocalStore(StoreSpec("file"))


@pytest.mark.parametrize(("work", "fate", "stride"), CASES_ON_FILES)
def test_a_job_that_was_hit_at_any_request_to_the_log_is_finished_by_the_same_command(
    store: StoreOperations, tmp_path: Path, work: str, fate: str, stride: int
):
    check_finished(store, str(tmp_path), work, fate, stride)


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.wide)])
@pytest.mark.parametrize("work", ["append", "replace", "undo"])
def test_a_job_that_died_at_any_request_to_the_log_is_resolved_if_its_directory_is_deleted(
    store: StoreOperations, tmp_path: Path, work: str, stride: int
):
    check_resolved(store, str(tmp_path), work, "after", stride)
