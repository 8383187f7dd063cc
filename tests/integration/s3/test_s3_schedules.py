"""Processes at one table on S3, stopped or killed at their requests while others run."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreSpec
from tests.schedules import PART_OF_A_TABLE, PARTS_OF_A_SERVER, check_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]


@pytest.mark.parametrize("part", PARTS_OF_A_SERVER)
def test_no_schedule_ends_in_what_must_not_be(fake_spec: StoreSpec, part: int):
    check_server(fake_spec, "/warehouse", part)


@pytest.mark.parametrize("part", PART_OF_A_TABLE)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(fake_spec: StoreSpec, part: int):
    check_server(fake_spec, "/warehouse", part, "--log")
