"""Processes that read a table again and again while others write to it, and note what they have read.

A follower notes each change of the table once, also if it is killed and started again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import duckdb

from ray_committer import Snapshot, changes, snapshot
from ray_committer.errors import TableVersionGoneError
from tests.commits.drivers import (
    COLUMNS,
    Journal,
    Row,
    digest_of,
    partition_of,
    reported_errors,
    rows_in,
)

LATELY = 15
"""How many versions before the last one a reader may ask for."""


@dataclass(frozen=True)
class Reading:
    """What a reader is started with: it reads until the file `stop` is there."""

    dest: str
    directory: Path
    reader: str
    stop: Path
    ray: str | None = None


def read(work: Reading) -> None:
    """The whole life of a reader."""
    with reported_errors(work.directory), _connected(work):
        journal, chance = Journal(work.directory / "journal"), random.Random(work.reader)
        is_last = False
        while not is_last:
            is_last = work.stop.exists()
            found = snapshot(work.dest)
            if not is_last and chance.random() < 0.4:
                version = chance.randint(max(1, found.version - LATELY), found.version)
                found = snapshot(work.dest, version)
            if not _read_one(work.reader, found, journal):
                _read_one(work.reader, found.refresh(), journal)


def follow(work: Reading) -> None:
    """The whole life of a follower: each change is noted in one step with its version."""
    with reported_errors(work.directory):
        journal = Journal(work.directory / "journal")
        seen = max((line["version"] for line in journal.lines if line["step"] == "change"), default=0)
        journal.put(step="begun")
        is_last = False
        while not is_last:
            is_last = work.stop.exists()
            for one in changes(work.dest, since=seen):
                journal.put(
                    step="change",
                    version=one.version,
                    job_id=one.job_id,
                    added=[file.path for file in one.added],
                    removed=[file.path for file in one.removed],
                )
                seen = one.version


def _read_one(reader: str, found: Snapshot, journal: Journal) -> bool:
    """Read a snapshot once; False if a file of it is gone."""
    try:
        rows = _READERS[reader](found) if found.files() else []
    except (TableVersionGoneError, FileNotFoundError, duckdb.IOException) as e:
        journal.put(step="gone", version=found.version, error=f"{type(e).__name__}: {e}")
        return False
    parts = groupby(sorted(rows), partition_of)
    digests = {part: digest_of(rows) for part, rows in parts}
    journal.put(
        step="read",
        version=found.version,
        digests=digests,
        is_in_place=found.is_in_place(),
    )
    return True


def _by_arrow(found: Snapshot) -> list[Row]:
    return rows_in(found.dataset().to_table())


def _by_duckdb(found: Snapshot) -> list[Row]:
    with duckdb.connect(config={"threads": 2}) as connection:
        query = f"select {', '.join(COLUMNS)} from read_parquet($urls, hive_partitioning = true)"
        return connection.execute(query, {"urls": found.urls()}).fetchall()


def _by_ray(found: Snapshot) -> list[Row]:
    try:
        rows = found.ray_dataset().take_all()
    except Exception as e:  # of a task, as Ray Data wraps it
        if "was removed after the snapshot was taken" not in str(e):
            raise
        raise TableVersionGoneError(str(e)) from e
    return [tuple(row[name] for name in COLUMNS) for row in rows]  # type: ignore[misc]


_READERS: dict[str, Callable[[Snapshot], list[Row]]] = {
    "arrow": _by_arrow,
    "duckdb": _by_duckdb,
    "ray": _by_ray,
}


@contextmanager
def _connected(work: Reading) -> Iterator[None]:
    if work.ray is not None:
        import ray

        ray.init(address=work.ray, namespace=f"reader {work.reader}", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
    yield
