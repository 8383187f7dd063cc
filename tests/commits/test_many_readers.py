"""Readers of a table that many drivers write to: each read has the rows of one version, or is an error.

A follower of its changes, which is killed again and again, gets each of them once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from ray_committer.table_jobs.table import init_table
from tests.commits.drivers import Journal, digest_of
from tests.commits.killed_processes import Life, run
from tests.commits.rows_oracle import Replay, replay, wrong_at_the_end
from tests.commits.table_readers import Reading, follow, read
from tests.commits.test_many_drivers import drivers_at


@dataclass(frozen=True)
class Readers:
    """How many drivers run how many jobs each beside the readers, and how often the follower is
    killed."""

    drivers: int
    jobs: int
    kill_seconds: float


NARROW = Readers(drivers=2, jobs=6, kill_seconds=0.3)
WIDE = Readers(drivers=4, jobs=40, kill_seconds=1.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_read_beside_jobs_has_the_rows_of_one_version(tmp_path: Path):
    check_readers(tmp_path, NARROW, ["arrow", "duckdb"])


@pytest.mark.wide
@pytest.mark.timeout(7200)
def test_many_reads_beside_many_jobs(tmp_path: Path):
    check_readers(tmp_path, WIDE, ["arrow", "duckdb"])


def check_readers(root: Path, size: Readers, names: list[str], *, ray: str | None = None) -> None:
    """Run drivers, readers and a follower at a new table, and let the oracle judge what they have
    noted."""
    dest, stop = root / "table", root / "stop"
    init_table(str(dest))

    def reading(name: str) -> Reading:
        (root / name).mkdir()
        return Reading(str(dest), root / name, name, stop, ray if name == "ray" else None)

    readers = {name: Life(read, reading(name)) for name in names}
    follower = Life(follow, reading("follower"))
    beside = [one.journal for one in readers.values()]
    drivers = drivers_at(dest, root, size.drivers, size.jobs, seed=1, beside=beside)
    run(
        [*readers.values(), follower, *drivers],
        victims=[follower],
        kill_seconds=size.kill_seconds,
        until=drivers,
        then=stop.touch,
    )
    journals = [Journal(one.journal) for one in drivers]
    found = replay(dest, journals)
    wrong = wrong_at_the_end(dest, found, journals)
    assert not wrong, "\n".join(wrong)
    for name, one in readers.items():
        lines = Journal(one.journal).lines
        steps = Counter(line["step"] for line in lines)
        print(f"{name}: {dict(steps)} of {found.log.head} versions, {len(found.log.commits)} commits")
        assert wrong_reads(lines, found) == []
        assert steps["read"] > 0
    assert follower.kills > 0
    print(f"{follower.kills} kills of the follower")
    noted = [line for line in Journal(follower.journal).lines if line["step"] == "change"]
    assert [(line["version"], line["job_id"], line["added"], line["removed"]) for line in noted] == [
        (one.version, one.claim.job_id, [*one.added], [*one.removed]) for one in found.log.commits
    ]


def wrong_reads(lines: list[dict[str, object]], found: Replay) -> list[str]:
    """The reads that no version has, and the errors without a reason.

    In the directories with files of fixed names, a read counts only if all files were in place after it.
    """
    wrong = []
    for line in lines:
        version: int = line["version"]  # type: ignore[assignment]
        if line["step"] == "gone":
            error = str(line["error"])
            if not found.lost_after(version):
                wrong.append(f"version {version}: {error}, but no later job has removed a file")
            if not any(path in error for path in found.files_at(version)):
                wrong.append(f"version {version}: {error}, which names no file")
            continue
        wanted = {part: digest_of(rows) for part, rows in found.table_at(version).items()}
        digests: dict[str, str] = line["digests"]  # type: ignore[assignment]
        wrong += [
            f"version {version}: other rows in {part}, in place: {line['is_in_place']}"
            for part in sorted({*wanted, *digests})
            if wanted.get(part) != digests.get(part)
            and (line["is_in_place"] or not part.startswith("day=0/"))
        ]
    return wrong
