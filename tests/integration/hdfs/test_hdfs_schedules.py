"""Processes at one table on HDFS, stopped or killed at their requests while others run."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreSpec
from tests.schedules import PART_OF_A_TABLE, PARTS_OF_A_SERVER, check_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("ray")]


@pytest.mark.parametrize("part", PARTS_OF_A_SERVER)
@pytest.mark.parametrize("way", ["web", pytest.param("rpc", marks=pytest.mark.wide)])
def test_no_schedule_ends_in_what_must_not_be(
    request: pytest.FixtureRequest, directory: str, way: str, part: int
):
    spec: StoreSpec = request.getfixturevalue(way)
    check_server(spec, directory, part)


@pytest.mark.parametrize("part", PART_OF_A_TABLE)
@pytest.mark.parametrize("way", ["web", "rpc"])
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(
    request: pytest.FixtureRequest, directory: str, way: str, part: int
):
    spec: StoreSpec = request.getfixturevalue(way)
    check_server(spec, directory, part, "--log")
