"""The first table of docs/who_sees_what.md: what readers see while each committer commits each write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.watched_job import NEW, WITH_DATA

pytestmark = [
    pytest.mark.spark,
    pytest.mark.one_spark,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "who_sees_what.md"
COLUMNS = {
    "v1": "Spark, version 1",
    "v2": "Spark, version 2",
    "manifest": "Hadoop's manifest committer",
    "ours": "ray_committer",
}
WRITES = {"append": "append", "dynamic overwrite": "dynamic", "overwrite": "overwrite"}
PARTITIONS = {"new": NEW, "with data": WITH_DATA}
BY_ONE_TASK = {
    "v1": "complete, at once",
    "v2": "in parts, as tasks end",
    "manifest": "in parts",
    "ours": "complete, at once",
}
"""How a new partition appears that one task has written."""


def said(seen: Mapping[str, list[Any]]) -> str:
    """What the page says of numbers of files that were seen one after another."""
    old, new, when = seen["old"], seen["new"], seen["when"]
    parts = "complete, at once" if sorted({*new}) == [0, new[-1]] else "in parts"
    if "task" in when:
        parts += ", as tasks end"
    if old[-1] == old[0]:
        return parts
    gone = [one for one, before, now in zip(when, old, new, strict=True) if before == now == 0]
    if not gone:
        assert (parts, old.index(0)) == ("in parts", len(old) - 1)
        assert all(before == old[0] for before, now in zip(old, new, strict=True) if now < new[-1])
        return "new files in parts, then old files go"
    return f"gone {'before tasks begin' if gone[0] == 'driver' else 'for a moment'}, then {parts}"


def table() -> dict[tuple[str, str], dict[str, str]]:
    """The rows of the page's first table, by write and partition."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    lines = lines[: next(i for i, line in enumerate(lines[2:], 2) if line.startswith("|---")) - 1]
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], row[1]): dict(zip(head[2:], row[2:], strict=True)) for row in rows}


@pytest.mark.parametrize(
    "committers",
    [
        pytest.param(("v1", "v2", "ours"), id="spark and ours"),
        pytest.param(("manifest",), id="manifest", marks=[pytest.mark.hadoop, pytest.mark.wide]),
    ],
)
def test_the_page_says_what_was_seen_after_each_request(tmp_path: Path, committers: tuple[str, ...]):
    script = str(Path(__file__).with_name("watched_job.py"))
    result = subprocess.run(
        [sys.executable, script, str(tmp_path), *committers],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    found = {(line["committer"], line["write"]): line for line in lines}
    assert (
        "ManifestCommitter"
        in found.get(("manifest", "append"), {"marker": "ManifestCommitter"})["marker"]
    )
    rows = table()
    assert len(rows) == len(WRITES) * len(PARTITIONS)
    for (write, partition), row in rows.items():
        assert {name: row[COLUMNS[name]] for name in committers} == {
            name: said(found[name, WRITES[write]][PARTITIONS[partition]]) for name in committers
        }, (write, partition)
    for name in committers:
        assert said(found[name, "one task"][NEW]) == BY_ONE_TASK[name]
