"""Many threads of some applications write to one table at once: as if one came after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyspark
import pytest

from tests.integration.spark.writers import PARTITIONS, ROWS_A_PARTITION

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

SCRIPT = Path(__file__).with_name("writers.py")
IS_SPARK_3 = pyspark.__version__.startswith("3.")
WAITED = "(waited 600 s)"
ROUNDS = int(os.environ.get("RAY_COMMITTER_TEST_ROUNDS", "2"))


@dataclass(frozen=True)
class Write:
    """One write: what it was, the partitions that it wrote to, and when it began and ended."""

    name: str
    kind: str
    partitions: list[int]
    begun: float
    ended: float
    error: str | None

    def replaces(self, partition: int) -> bool:
        return self.kind != "append" and partition in self.partitions


def run_all(master: str, root: Path, *, applications: int, threads: int, rounds: int) -> list[Write]:
    """What all applications wrote, or failed to."""
    (root / "table").mkdir(parents=True)

    def run(number: int) -> list[Write]:
        command = [sys.executable, str(SCRIPT), master, str(root)]
        counts = [str(number), str(threads), str(rounds)]
        ended = subprocess.run(
            [*command, *counts], capture_output=True, text=True, cwd=root, check=False
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return [Write(**one) for one in json.loads(ended.stdout.splitlines()[-1])]

    with ThreadPoolExecutor(applications) as pool:
        return [one for writes in pool.map(run, range(applications)) for one in writes]


def visible_in(table: Path) -> dict[int, Counter[str]]:
    """How many rows of which write are in each partition."""
    rows = ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=["writer", "p"])
    found: dict[int, Counter[str]] = {number: Counter() for number in range(PARTITIONS)}
    for writer, partition in zip(rows["writer"].to_pylist(), rows["p"].to_pylist(), strict=True):
        found[partition][writer] += 1
    return found


def wrong_in(writes: list[Write], found: dict[int, Counter[str]]) -> list[str]:
    """What cannot be, had the writes been done one after another, each between its begin and its end."""
    named = {one.name: one for one in writes}
    wrong = [
        f"p={partition}: {count} rows of {named[name]}"
        for partition, rows in found.items()
        for name, count in rows.items()
        if count != ROWS_A_PARTITION
    ]
    wrong += [f"{one} failed and is visible" for one in writes if one.error and _is_in(one, found)]
    last = {
        partition: [named[name] for name in rows if named[name].replaces(partition)]
        for partition, rows in found.items()
    }
    wrong += [f"p={number}: both {some}" for number, some in last.items() if len(some) > 1]
    wrong += [
        f"p={number}: each overwrite is gone"
        for number, some in last.items()
        if not some and any(one.replaces(number) and not one.error for one in writes)
    ]
    for partition, rows in found.items():
        for one in (one for one in writes if partition in one.partitions and not one.error):
            wrong += _wrong_of(one, partition, rows, writes)
    return wrong + _torn(named, found, last)


def _is_in(one: Write, found: dict[int, Counter[str]]) -> bool:
    return any(one.name in rows for rows in found.values())


def _wrong_of(one: Write, partition: int, rows: Counter[str], writes: list[Write]) -> list[str]:
    """A write that is gone must have met what replaces it; one that is there must not have."""
    others = [other for other in writes if other.replaces(partition) and other is not one]
    if one.name not in rows:
        if any(other.ended > one.begun and not other.error for other in others):
            return []
        return [f"p={partition}: {one} is gone, and nothing replaced it"]
    after = [other for other in others if other.begun > one.ended and not other.error]
    return [f"p={partition}: {one} is there after {after[0]}"] if after else []


def _torn(
    named: dict[str, Write], found: dict[int, Counter[str]], last: dict[int, list[Write]]
) -> list[str]:
    """Of two partitions that one overwrite replaced last, each append is in both or in none."""
    wrong = []
    for first in range(PARTITIONS):
        for second in range(first + 1, PARTITIONS):
            if last[first] and last[first] == last[second]:
                differ = set(found[first]) ^ set(found[second])
                wrong += [
                    f"p={first} and p={second}: {named[name]} is in one of them"
                    for name in differ
                    if named[name].kind == "append"
                ]
    return wrong


@pytest.mark.one_spark
@pytest.mark.timeout(290)
def test_writes_of_many_threads_and_applications_are_as_if_one_came_after_another(tmp_path: Path):
    writes = run_all("local[2]", tmp_path, applications=2, threads=4, rounds=ROUNDS)
    assert [one.error for one in writes if one.error] == []
    assert wrong_in(writes, visible_in(tmp_path / "table")) == []
    assert {one.kind for one in writes} == {"append", "overwrite", "dynamic", "static"}
    assert not (tmp_path / "table" / "_temporary").exists()


@pytest.mark.wide
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("master", ["local[2]", *(["raydp"] if IS_SPARK_3 else [])])
def test_many_writes_of_many_threads_and_applications(tmp_path: Path, master: str):
    rounds = int(os.environ.get("RAY_COMMITTER_TEST_ROUNDS", "10"))
    writes = run_all(master, tmp_path, applications=3, threads=8, rounds=rounds)
    failed = [one.error for one in writes if one.error]
    print(f"{len(writes)} writes, {len(failed)} failed")
    assert [error for error in failed if WAITED not in error] == [], "no other reason to fail"
    assert wrong_in(writes, visible_in(tmp_path / "table")) == []


def a_write(name: str, kind: str, begun: float, ended: float, partitions: Any = (0, 1, 2)) -> Write:
    return Write(name, kind, list(partitions), begun, ended, None)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({0: {"a": 4, "w": 4}, 1: {"a": 4, "w": 4}, 2: {"a": 4, "w": 4}}, ""),
        ({0: {"w": 4}, 1: {"w": 4}, 2: {"w": 4}}, ""),
        ({0: {"a": 8, "w": 4}, 1: {"a": 4, "w": 4}, 2: {"a": 4, "w": 4}}, "8 rows"),
        ({0: {"a": 3, "w": 4}, 1: {"a": 4, "w": 4}, 2: {"a": 4, "w": 4}}, "3 rows"),
        ({0: {"a": 4, "w": 4}, 1: {"w": 4}, 2: {"w": 4}}, "in one of them"),
        ({0: {"w": 4, "v": 4}, 1: {"w": 4, "v": 4}, 2: {"w": 4, "v": 4}}, "both"),
        ({0: {"w": 4, "early": 4}, 1: {"w": 4}, 2: {"w": 4}}, "is there after"),
        ({0: {"a": 4}, 1: {"a": 4}, 2: {"a": 4}}, "each overwrite is gone"),
        ({0: {"early": 4, "v": 4}, 1: {"v": 4}, 2: {"v": 4}}, "is there after"),
    ],
)
def test_the_judge_finds_what_cannot_be(rows: dict[int, dict[str, int]], says: str):
    writes = [
        a_write("early", "append", 0, 1),
        a_write("v", "overwrite", 2, 5),
        a_write("a", "append", 3, 7),
        a_write("w", "overwrite", 4, 8),
    ]
    found = {number: Counter(named) for number, named in rows.items()}
    wrong = wrong_in(writes, found)
    assert any(says in text for text in wrong) if says else wrong == []
