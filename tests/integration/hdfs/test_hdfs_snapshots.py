"""Readers of a table with a log on HDFS, through fsspec's own client of WebHDFS."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreSpec
from tests.integration.snapshots import check_snapshots

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("ray")]


def test_each_version_is_read_whole_and_alone(web: StoreSpec):
    check_snapshots(f"webhdfs://{web.authority}/snapshots/table", {})
