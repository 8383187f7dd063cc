"""Ray Data's sink and a commit on Ray's workers, with a destination on S3."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet
import pytest
import ray.data

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.stores.base import StoreSpec
from ray_committer.writers.ray_data import ManifestDatasink
from tests.commits.test_adopted_jobs import FILES, TASKS, URL, UUID, visible, write_task
from tests.servers.fake_s3 import FakeS3, FakeS3Server

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", "1")
    ray.data.DataContext.get_current().enable_progress_bars = False


@pytest.fixture
def server() -> Iterator[FakeS3Server]:
    server = FakeS3Server(FakeS3(forgets=True)).start()
    server.fake.buckets["bucket"] = {}
    yield server
    server.stop()


def rows(fake: FakeS3) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name, one in fake.buckets["bucket"].items():
        if name.endswith(".parquet"):
            partition = name.split("/")[1].partition("=")[2]
            table = pyarrow.parquet.read_table(io.BytesIO(one.data))
            found += [{**row, "p": partition} for row in table.to_pylist()]
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.wide
def test_ray_data_writes_each_row_once_and_overwrites_partitions(server: FakeS3Server):
    spec = StoreSpec("s3", "bucket", server.storage_options)
    for mode, ids in (("append", range(40)), ("overwrite_partitions", range(100, 120))):
        table = pa.table({"id": list(ids), "p": [f"v{number % 3}" for number in ids]})
        sink = ManifestDatasink(
            "s3://bucket/table",
            "parquet",
            partition_by=["p"],
            mode=mode,
            storage_options=spec.storage_options,
        )
        ray.data.from_arrow(table).repartition(4).write_datasink(sink)
        assert sink.report is not None
        assert sink.report.outcome is Outcome.COMMITTED
        assert rows(server.fake) == [{"id": number, "p": f"v{number % 3}"} for number in ids]
    assert server.fake.uploads == {}
    assert not [name for name in server.fake.buckets["bucket"] if "_temporary" in name]


def test_rays_workers_complete_a_job_that_s3a_left(server: FakeS3Server):
    for task in TASKS:
        write_task(server.fake, task)
    options = CommitOptions(expected_tasks=len(TASKS), validate=True)
    report = ray_committer.commit_job(
        URL, UUID, executor="ray", options=options, storage_options=server.storage_options
    )
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, len(FILES))
    assert visible(server.fake) == FILES
    assert server.fake.uploads == {}
