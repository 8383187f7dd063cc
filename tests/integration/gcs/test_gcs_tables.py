"""Jobs of a table with a log on Google's storage that die, or lose an answer, at requests to the log."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreOperations
from tests.table_crashes import CASES_OF_A_SERVER, check_finished, check_resolved

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("gcs")]


@pytest.fixture
def root() -> str:
    return "/warehouse"


@pytest.mark.parametrize(("work", "fate", "stride"), CASES_OF_A_SERVER)
def test_a_job_that_was_hit_at_any_request_to_the_log_is_finished_by_the_same_command(
    store: StoreOperations, root: str, work: str, fate: str, stride: int
):
    check_finished(store, root, work, fate, stride)


@pytest.mark.wide
@pytest.mark.parametrize("work", ["append", "replace", "rewrite"])
def test_a_job_that_died_at_any_request_to_the_log_is_resolved_if_its_directory_is_deleted(
    store: StoreOperations, root: str, work: str
):
    check_resolved(store, root, work, "after", 1)
