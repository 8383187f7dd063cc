"""Processes at one table on Google's storage, stopped or killed at their requests while others run."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreSpec
from tests.schedules import PART_OF_A_TABLE, PARTS_OF_A_SERVER, check_server
from tests.servers.gcs import GcsServer

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("gcs")]


@pytest.mark.parametrize("part", PARTS_OF_A_SERVER)
def test_no_schedule_ends_in_what_must_not_be(server: GcsServer, bucket: str, part: int):
    check_server(StoreSpec("gs", bucket, server.storage_options), "/warehouse", part)


@pytest.mark.parametrize("part", PART_OF_A_TABLE)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(
    server: GcsServer, bucket: str, part: int
):
    spec = StoreSpec("gs", bucket, server.storage_options)
    check_server(spec, "/warehouse", part, "--log")
