"""Many drivers of one Ray cluster, and readers by Ray Data, at one table: as `tests/commits` has them
without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.commits.test_many_drivers import WIDE, check_drivers
from tests.commits.test_many_readers import WIDE as WIDE_READERS
from tests.commits.test_many_readers import check_readers
from tests.integration.ray.test_shared_pools import actors, until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.wide,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(14_400),
    pytest.mark.usefixtures("ray_cluster"),
]

POOLS = ("even", "odd")


@pytest.fixture
def address() -> Iterator[str]:
    """The cluster; all pools of its drivers have ended after the test."""
    yield ray.get_runtime_context().gcs_address
    until(lambda: not any(actors(name) for name in POOLS), seconds=300.0)


def pool_of(driver: int) -> str | None:
    """The first driver has a pool of its own; two pools serve the others."""
    return POOLS[driver % 2] if driver else None


def test_many_jobs_of_many_killed_drivers_of_one_cluster(address: str, tmp_path: Path):
    check_drivers(tmp_path, WIDE, seed=0, on_ray=lambda driver: (address, pool_of(driver)))


def test_many_reads_by_ray_data_beside_many_jobs(address: str, tmp_path: Path):
    check_readers(tmp_path, WIDE_READERS, ["arrow", "ray"], ray=address)
