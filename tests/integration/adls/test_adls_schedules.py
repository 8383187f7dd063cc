"""Processes at one table on Azure's storage, stopped or killed at their requests while others run."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.stores.registry import resolve_destination
from tests.schedules import PART_OF_A_TABLE, PARTS_OF_A_SERVER, check_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("adls")]


@pytest.mark.parametrize("part", PARTS_OF_A_SERVER)
def test_no_schedule_ends_in_what_must_not_be(url: str, options: dict[str, Any], part: int):
    spec, directory = resolve_destination(url, options)
    check_server(spec, directory, part)


@pytest.mark.parametrize("part", PART_OF_A_TABLE)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(
    url: str, options: dict[str, Any], part: int
):
    spec, directory = resolve_destination(url, options)
    check_server(spec, directory, part, "--log")
