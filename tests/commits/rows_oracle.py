"""Replays the rows of a table, job by job in the order in which its log says that they were committed.

It knows from the journals of the drivers what each job was to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.commits.drivers import Journal, Row, partition_of, rows_from
from tests.machines import table_oracle
from tests.machines.table_oracle import Committed, is_in, overlap

Table = dict[str, list[Row]]
"""The rows of each partition."""


@dataclass
class Replay:
    """The log, the files and the rows after each commit, and all that is `wrong` with the rows."""

    log: table_oracle.Replay
    files: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    tables: list[Table] = field(default_factory=lambda: [{}])
    wrong: list[str] = field(default_factory=list)

    def table_at(self, version: int) -> Table:
        return self.tables[self._number(version)]

    def files_at(self, version: int) -> frozenset[str]:
        return self.files[self._number(version)]

    def lost_after(self, version: int) -> bool:
        """Whether a later job has removed a file of a version."""
        later = (one for one in self.log.commits if one.version > version)
        return any(not self.files_at(version).isdisjoint(one.removed) for one in later)

    def _number(self, version: int) -> int:
        return sum(one.version <= version for one in self.log.commits)


def replay(dest: Path, journals: Iterable[Journal]) -> Replay:
    found = Replay(table_oracle.replay(*_log(dest)))
    written = {
        line["job_id"]: line
        for journal in journals
        for line in journal.lines
        if line.get("step") == "written"
    }
    for one in found.log.commits:
        found.files.append(found.files[-1] - {*one.removed} | {*one.added})
        _replay_rows(found, one, written.get(one.claim.job_id))
    return found


def wrong_at_the_end(dest: Path, found: Replay, journals: Iterable[Journal]) -> list[str]:
    """What cannot be after all drivers have ended."""
    wrong = [*found.wrong, *filter(None, [table_oracle.judge_log(*_log(dest))])]
    wrong += _differences(_rows_of(dest, found.files[-1]), found.tables[-1])
    committed = {one.claim.job_id: one.version for one in found.log.commits}
    for journal in journals:
        last = {line["number"]: line for line in journal.lines if line["step"] == "written"}
        for line in (line for line in journal.lines if line["step"] == "ended"):
            job = last.get(line["number"])
            if line["outcome"] == "refused" and job is not None and job["job_id"] in committed:
                wrong.append(f"{job['job_id']} was refused and is committed")
            if line["outcome"] == "committed" and line["version"] not in committed.values():
                wrong.append(f"{line} is not in the log")
    return wrong


def _log(dest: Path) -> tuple[LocalStore, TablePlaces]:
    return LocalStore(StoreSpec("file")), TablePlaces(str(dest))


def _rows_of(dest: Path, files: Iterable[str]) -> Table:
    found: Table = {}
    for name in files:
        partition = name.rpartition("/")[0]
        day, hour = (int(part.partition("=")[2]) for part in partition.split("/"))
        rows = pq.ParquetFile(dest / name).read().to_pylist()
        found.setdefault(partition, []).extend(
            (day, hour, row["writer"], row["number"], row["value"]) for row in rows
        )
    return _sorted(found)


def _replay_rows(found: Replay, one: Committed, written: dict[str, Any] | None) -> None:
    """Do what the job was to do, to the rows that the jobs before it have left."""
    table, job_id, partitions = found.tables[-1], one.claim.job_id, one.claim.partitions
    if written is not None:
        after = _written(found, table, written)
    elif job_id.startswith("drop-"):
        after = _without(table, partitions)
    elif job_id.startswith("undo-"):
        after = _undone(found, partitions)
    else:
        after = table
        if not one.claim.is_import:
            found.wrong.append(f"{job_id} is unknown")
    found.tables.append(_sorted(after))


def _written(found: Replay, table: Table, written: dict[str, Any]) -> Table:
    kind, day, hours = written["kind"], written["day"], written["hours"]
    rows: list[Row] = [tuple(row) for row in written["rows"]]  # type: ignore[misc]
    if kind in ("derive", "read"):
        of_day = [row for part in table.values() for row in part if is_in(partition_of(row), [day])]
        if rows != rows_from(written["job_id"], hours, of_day):
            found.wrong.append(f"{written['job_id']} has read other rows of {day} than were there")
    if kind == "create" and any(table.get(hour) for hour in hours):
        found.wrong.append(f"{written['job_id']} has added rows where others were")
    replaced = {"table": [""], "day": [day], "derive": [day], "partitions": hours}.get(kind, [])
    after = _without(table, replaced)
    for row in rows:
        after.setdefault(partition_of(row), []).append(row)
    return after


def _undone(found: Replay, partitions: Sequence[str]) -> Table:
    """What was there before the last job that had to do with some partitions."""
    for number in reversed(range(len(found.tables) - 1)):
        if overlap(found.log.commits[number].claim.partitions, partitions):
            before = found.tables[number]
            again = {part: rows for part, rows in before.items() if is_in(part, partitions)}
            return {**_without(found.tables[-1], partitions), **again}
    found.wrong.append(f"an undo in {partitions}, where no job was before it")
    return found.tables[-1]


def _without(table: Table, partitions: Sequence[str]) -> Table:
    return {part: [*rows] for part, rows in table.items() if not is_in(part, partitions)}


def _sorted(table: Table) -> Table:
    return {part: sorted(rows) for part, rows in sorted(table.items()) if rows}


def _differences(there: Table, wanted: Table) -> Iterator[str]:
    for part in sorted({*there, *wanted}):
        extra = [row for row in there.get(part, []) if row not in wanted.get(part, [])]
        lost = [row for row in wanted.get(part, []) if row not in there.get(part, [])]
        if there.get(part) != wanted.get(part):
            yield f"{part}: has {extra} and not {lost}, or a row twice"
