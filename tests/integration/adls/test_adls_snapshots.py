"""Readers of a table with a log on Azure Data Lake Storage."""

from __future__ import annotations

from typing import Any

from tests.integration.snapshots import check_snapshots


def test_each_version_is_read_whole_and_alone(url: str, options: dict[str, Any]):
    now = check_snapshots(url, options)
    assert now.urls("day=1") == [f"{url.replace('abfss', 'abfs')}/day=1/part-9.csv"]
