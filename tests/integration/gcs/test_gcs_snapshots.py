"""Readers of a table with a log on Google Cloud Storage."""

from __future__ import annotations

from tests.integration.snapshots import check_snapshots
from tests.servers.gcs import GcsServer


def test_each_version_is_read_whole_and_alone(server: GcsServer, bucket: str):
    now = check_snapshots(f"gs://{bucket}/lake/table", server.storage_options)
    assert now.urls("day=1") == [f"gs://{bucket}/lake/table/day=1/part-9.csv"]
