"""The doctor on a bucket: every promise of the store tried over HTTP, and nothing left behind."""

from __future__ import annotations

import pytest

import ray_committer
from ray_committer.promises.all import promises_of
from ray_committer.promises.lines import Verdict
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.testing.harness import all_files, put_file
from tests.servers.gcs import GcsServer

pytestmark = pytest.mark.xdist_group("gcs")


def test_a_bucket_passes_and_stays_as_it_was(server: GcsServer, bucket: str, store: GcsStore):
    put_file(store, "/table/p=1/a", b"is there")
    before = all_files(store, "/")
    diagnosis = ray_committer.doctor(
        f"gs://{bucket}/table", executor="threads", storage_options=server.storage_options
    )
    verdicts = {line.name: line.verdict for line in diagnosis.lines}
    names = [promise.name for promise in promises_of(store)]
    assert {verdicts[name] for name in (*names, "write", "latency", "clean-up")} == {Verdict.OK}
    assert all_files(store, "/") == before
