"""A NameNode that allows few names in a directory: what does not fit in is found before the record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ray_committer.errors import PreflightError
from ray_committer.job_files.job_state import adopt_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.hdfs.protocol import MAX_ITEMS
from ray_committer.stores.registry import open_store
from ray_committer.testing import run_commit, visible_files, write_job
from ray_committer.testing.harness import put_file
from tests.servers.hdfs import HdfsServer, hdfs_server

pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("ray"), pytest.mark.timeout(120)]

LIMIT = 8


@pytest.fixture(scope="module")
def small_server() -> Iterator[HdfsServer]:
    with hdfs_server({MAX_ITEMS: LIMIT}) as started:
        yield started


@pytest.fixture(params=["hdfs", "webhdfs"])
def small_store(request: pytest.FixtureRequest, small_server: HdfsServer) -> StoreOperations:
    authorities = {
        "hdfs": small_server.authority,
        "webhdfs": small_server.http_url.removeprefix("http://"),
    }
    spec = StoreSpec(request.param, authorities[request.param], {MAX_ITEMS: str(LIMIT)})
    return open_store(spec)


def test_a_directory_without_room_is_named_and_its_last_place_is_taken(small_store: StoreOperations):
    table = f"/{small_store.spec.scheme}"
    for number in range(LIMIT - 2):
        put_file(small_store, f"{table}/p=1/old-{number}", b"old")
    job = new_job_attempt(table, "job_1", 0)
    write_job(small_store, job, {task: {f"p=1/{task}": b"new"} for task in range(3)})
    with pytest.raises(PreflightError, match=f"p=1: holds {LIMIT - 2} names and gets 3 more, but"):
        run_commit(small_store, job)
    assert adopt_state(small_store, job).phase is Phase.OPEN
    small_store.delete_file(f"{table}/p=1/old-0")
    run_commit(small_store, job)
    assert len(visible_files(small_store, table)) == LIMIT
    with pytest.raises(OSError, match="limit"):  # the NameNode's own, by which ours is right
        small_store.write(f"{table}/p=1/one-more", b"")
