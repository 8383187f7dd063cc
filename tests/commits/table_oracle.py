"""Replays the jobs of a table one by one, in the order in which its log says that they were committed.

It reads the log by itself, and knows from the journals of the drivers what each job was to write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.commits.drivers import Journal, Row, partition_of, rows_from

Entry = dict[str, Any]
Table = dict[str, list[Row]]
"""The rows of each partition."""


@dataclass(frozen=True)
class Commit:
    """A job in the log: the version of its commit, its claim, the files that it adds and removes."""

    version: int
    claim: Entry
    added: list[str]
    removed: list[str]

    @property
    def job_id(self) -> str:
        return str(self.claim["job_id"])


@dataclass
class Replay:
    """What the log and the journals say of each version, and all that is `wrong` with them."""

    head: int
    commits: list[Commit] = field(default_factory=list)
    files: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    tables: list[Table] = field(default_factory=lambda: [{}])
    wrong: list[str] = field(default_factory=list)
    in_flight: list[str] = field(default_factory=list)

    def table_at(self, version: int) -> Table:
        return self.tables[self._number(version)]

    def files_at(self, version: int) -> frozenset[str]:
        return self.files[self._number(version)]

    def lost_after(self, version: int) -> bool:
        """Whether a later job has removed a file of a version."""
        later = (one for one in self.commits if one.version > version)
        return any(not self.files_at(version).isdisjoint(one.removed) for one in later)

    def _number(self, version: int) -> int:
        return sum(one.version <= version for one in self.commits)


def replay(dest: Path, journals: Iterable[Journal]) -> Replay:
    entries = read_log(dest)
    found = Replay(len(entries))
    if (versions := [version for version, _ in entries]) != list(range(1, len(entries) + 1)):
        found.wrong.append(f"the log has gaps, or a version twice: {versions}")
    _follow(entries, found)
    written = {
        line["job_id"]: line
        for journal in journals
        for line in journal.lines
        if line.get("step") == "written"
    }
    for one in found.commits:
        _replay_files(found, one)
        _replay_rows(found, one, written.get(one.job_id))
    ids = [one.job_id for one in found.commits]
    found.wrong += [f"{one} was committed twice" for one in sorted({*ids}) if ids.count(one) > 1]
    return found


def read_log(dest: Path) -> list[tuple[int, Entry]]:
    """The entries with their versions, in order; a file holds one, or a list of consecutive ones."""
    found = []
    for path in sorted((dest / "_ray_committer" / "log").glob("*/*.entry")):
        content = json.loads(path.read_bytes())["content"]
        first = 1000 * int(path.parent.name) + int(path.stem)
        found += enumerate(content if isinstance(content, list) else [content], first)
    return found


def files_of_directory(dest: Path) -> set[str]:
    """The data files that readers of directories see."""
    found = set()
    for parent, directories, names in os.walk(dest):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        found |= {os.path.relpath(f"{parent}/{name}", dest) for name in names if name != "_SUCCESS"}
    return found


def rows_of_directory(dest: Path) -> Table:
    found: Table = {}
    for name in sorted(files_of_directory(dest)):
        partition = name.rpartition("/")[0]
        day, hour = (int(part.partition("=")[2]) for part in partition.split("/"))
        rows = pq.ParquetFile(dest / name).read().to_pylist()
        found.setdefault(partition, []).extend(
            (day, hour, row["writer"], row["number"], row["value"]) for row in rows
        )
    return _sorted(found)


def wrong_at_the_end(dest: Path, found: Replay, journals: Iterable[Journal]) -> list[str]:
    """What cannot be after all drivers have ended."""
    wrong = [*found.wrong, *(f"{one} is in flight" for one in found.in_flight)]
    if (there := files_of_directory(dest)) != found.files[-1]:
        wrong.append(
            f"files of the directory and of the log differ in {sorted(there ^ found.files[-1])}"
        )
    wrong += _differences(rows_of_directory(dest), found.tables[-1])
    committed = {one.job_id: one.version for one in found.commits}
    for journal in journals:
        last = {line["number"]: line for line in journal.lines if line["step"] == "written"}
        for line in (line for line in journal.lines if line["step"] == "ended"):
            job = last.get(line["number"])
            if line["outcome"] == "refused" and job is not None and job["job_id"] in committed:
                wrong.append(f"{job['job_id']} was refused and is committed")
            if line["outcome"] == "committed" and line["version"] not in committed.values():
                wrong.append(f"{line} is not in the log")
    return wrong


def _follow(entries: Iterable[tuple[int, Entry]], found: Replay) -> None:
    claims: dict[int, Entry] = {}
    committed: set[int] = set()
    for version, entry in entries:
        if entry["type"] == "claim":
            for other in claims.values():
                if _must_not_meet(entry, other):
                    found.wrong.append(
                        f"{entry['job_id']} (version {version}) is in flight beside {other['job_id']}"
                    )
            claims[version] = entry
            continue
        claim = claims.get(entry["claim"])
        if claim is None:
            continue  # it has ended already, or is that of a job without a claim
        if entry["type"] == "commit":
            if entry["claim"] in committed:
                found.wrong.append(f"version {version} commits claim {entry['claim']} again")
            removed = _paths(entry.get("removed", {}))
            found.commits.append(Commit(version, claim, _paths(claim["files"]), removed))
            claims = {v: one for v, one in claims.items() if one is claim or not _is_same(one, claim)}
            committed.add(entry["claim"])
            if removed:
                continue
        elif (entry["type"] == "abort") is (entry["claim"] in committed):
            found.wrong.append(f"version {version}: {entry['type']} of claim {entry['claim']}")
        del claims[entry["claim"]]
    found.in_flight = [claim["job_id"] for claim in claims.values()]


def _replay_files(found: Replay, one: Commit) -> None:
    before = found.files[-1]
    if foreign := set(one.removed) - before:
        found.wrong.append(f"{one.job_id} removes {sorted(foreign)}, which are not in the table")
    if twice := set(one.added) & (before - set(one.removed)):
        found.wrong.append(f"{one.job_id} adds {sorted(twice)}, which are in the table")
    found.files.append(before - set(one.removed) | set(one.added))


def _replay_rows(found: Replay, one: Commit, written: Entry | None) -> None:
    """Do what the job was to do, to the rows that the jobs before it have left."""
    table, partitions = found.tables[-1], one.claim["partitions"]
    if written is not None:
        after = _written(found, table, written)
    elif one.job_id.startswith("drop-"):
        after = _without(table, partitions)
    elif one.job_id.startswith("undo-"):
        after = _undone(found, partitions)
    else:
        after = table
        if not one.job_id.startswith("compact-") and not one.claim.get("is_import"):
            found.wrong.append(f"{one.job_id} is unknown")
    found.tables.append(_sorted(after))


def _written(found: Replay, table: Table, written: Entry) -> Table:
    kind, day, hours = written["kind"], written["day"], written["hours"]
    rows: list[Row] = [tuple(row) for row in written["rows"]]  # type: ignore[misc]
    if kind in ("derive", "read"):
        of_day = [row for part in table.values() for row in part if _is_in(partition_of(row), [day])]
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
        if _overlap(found.commits[number].claim["partitions"], partitions):
            before = found.tables[number]
            again = {part: rows for part, rows in before.items() if _is_in(part, partitions)}
            return {**_without(found.tables[-1], partitions), **again}
    found.wrong.append(f"an undo in {partitions}, where no job was before it")
    return found.tables[-1]


def _without(table: Table, partitions: Sequence[str]) -> Table:
    return {part: [*rows] for part, rows in table.items() if not _is_in(part, partitions)}


def _must_not_meet(one: Entry, other: Entry) -> bool:
    """Whether two jobs must not be at work at the same time."""
    if _is_same(one, other):
        return False
    modes = {one["mode"], other["mode"]}
    excludes = modes not in ({"append"}, {"append", "rewrite"})
    return (
        (excludes and _overlap(one["partitions"], other["partitions"]))
        or _overlap(one.get("reads", []), other["partitions"])
        or _overlap(other.get("reads", []), one["partitions"])
    )


def _is_same(one: Entry, other: Entry) -> bool:
    return (one["job_id"], one["nonce"]) == (other["job_id"], other["nonce"])


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(_is_in(path, others) for path in some) or any(_is_in(path, some) for path in others)


def _is_in(path: str, directories: Sequence[str]) -> bool:
    return any(one in ("", path) or path.startswith(f"{one}/") for one in directories)


def _paths(files: Entry) -> list[str]:
    assert not files.get("lists"), "the jobs of these tests have few files"
    return [file["p"] for file in files.get("inline", [])]


def _sorted(table: Table) -> Table:
    return {part: sorted(rows) for part, rows in sorted(table.items()) if rows}


def _differences(there: Table, wanted: Table) -> Iterator[str]:
    for part in sorted({*there, *wanted}):
        extra = [row for row in there.get(part, []) if row not in wanted.get(part, [])]
        lost = [row for row in wanted.get(part, []) if row not in there.get(part, [])]
        if there.get(part) != wanted.get(part):
            yield f"{part}: has {extra} and not {lost}, or a row twice"
