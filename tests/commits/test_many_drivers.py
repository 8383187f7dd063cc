"""Many drivers, killed at any time, write to one table: as if their jobs had come one after another.

Each driver that is killed is started again, and continues with its job by the same command. In the end
nothing waits for a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer.table_jobs.table import init_table
from tests.commits.drivers import (
    MADE_FROM_LOG,
    Drive,
    Journal,
    drive,
    finish_made_from_log,
    partition_of,
    rows_in,
)
from tests.commits.killed_processes import Life, run
from tests.commits.rows_oracle import Replay, Table, replay, wrong_at_the_end

OnRay = Callable[[int], tuple[str, str | None]]
"""The address of a Ray cluster, and the shared pool of a driver there."""


@dataclass(frozen=True)
class Drivers:
    """How many drivers run how many jobs each, and how often one of them is killed."""

    drivers: int
    jobs: int
    kill_seconds: float


NARROW = Drivers(drivers=3, jobs=6, kill_seconds=0.3)
WIDE = Drivers(drivers=8, jobs=50, kill_seconds=2.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_jobs_of_killed_drivers_are_as_if_one_came_after_another(tmp_path: Path):
    check_drivers(tmp_path, NARROW, seed=2)


@pytest.mark.wide
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("seed", "kill_seconds"), [(0, 2.0), (1, 0.3), (2, 0.1)])
def test_many_jobs_of_many_killed_drivers(tmp_path: Path, seed: int, kill_seconds: float):
    check_drivers(tmp_path, replace(WIDE, kill_seconds=kill_seconds), seed=seed)


def check_drivers(root: Path, size: Drivers, *, seed: int, on_ray: OnRay | None = None) -> None:
    """Run drivers at a new table, and let the oracle judge what they have left."""
    dest = root / "table"
    init_table(str(dest))
    lives = drivers_at(dest, root, size.drivers, size.jobs, seed=seed, on_ray=on_ray)
    run(lives, victims=lives, kill_seconds=size.kill_seconds)
    finish_made_from_log(str(dest))
    journals = [Journal(one.journal) for one in lives]
    found = replay(dest, journals)
    outcomes = Counter(
        f"{line['kind']} {line['outcome']}"
        for journal in journals
        for line in journal.lines
        if line["step"] == "ended"
    )
    kills = sum(one.kills for one in lives)
    print(
        f"{kills} kills, {found.log.head} versions, {len(found.log.commits)} commits: {dict(outcomes)}"
    )
    wrong = wrong_at_the_end(dest, found, journals)
    assert not wrong, "\n".join(wrong)
    assert head_of(dest, found) == found.tables[-1]
    assert sum(outcomes.values()) == size.drivers * size.jobs
    assert kills > 0
    assert_all_have_ended(dest)


def drivers_at(
    dest: Path,
    root: Path,
    drivers: int,
    jobs: int,
    *,
    seed: int,
    on_ray: OnRay | None = None,
    beside: Sequence[Path] = (),
) -> list[Life]:
    lives = []
    for number in range(drivers):
        directory = root / f"driver-{number}"
        directory.mkdir()
        ray, pool = on_ray(number) if on_ray is not None else (None, None)
        work = Drive(str(dest), directory, number, drivers, jobs, seed, ray, pool, tuple(beside))
        lives.append(Life(drive, work))
    return lives


def head_of(dest: Path, found: Replay) -> Table:
    """The rows that the package itself reads at the last version."""
    snapshot = ray_committer.snapshot(str(dest))
    assert snapshot.version == found.log.head
    assert {file.path for file in snapshot.files()} == found.files[-1]
    table: Table = {}
    for row in rows_in(snapshot.dataset().to_table()) if snapshot.files() else []:
        table.setdefault(partition_of(row), []).append(row)
    return table


def assert_all_have_ended(dest: Path) -> None:
    """No job is open, but those that died while they were set up: these have nothing, and `vacuum`
    removes them."""
    for one in ray_committer.list_jobs(str(dest)):
        assert (one.state, one.manifests, one.claim) == ("running", 0, None), one
        assert one.job_id.startswith(MADE_FROM_LOG), one
    scan = ray_committer.scan_table(str(dest))
    assert scan.agrees, scan
    assert scan.claims == ()
