"""Blocks that need neither Ray nor Spark, run as printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ray_committer
from tests.conftest import visible_files
from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks
from tests.docs.preparations import PREPARATIONS, data_files, printed_in
from tests.servers.moto import MotoServer

pytestmark = pytest.mark.slow

BLOCKS = all_blocks()
CATALOG = """
import json
from pyiceberg.catalog import load_catalog
catalog = load_catalog("mine")
"""
ROWS = """
table = catalog.load_table("db.table")
for scan in table.scan(), table.scan("day = 2"):
    print(json.dumps(scan.to_arrow().to_pylist()))
"""
CONTRACT = """
from ray_committer.testing import MemoryStore

MyStore = lambda _: MemoryStore()
"""


def path_with_command(directory: Path) -> dict[str, str]:
    """An environment in which `ray-committer` and `python` are this source tree's."""
    directory.mkdir()
    for name, arguments in (("ray-committer", "-m ray_committer.cli"), ("python", "")):
        (directory / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (directory / name).chmod(0o755)
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def run_block(name: str, scratch: Path, environment: dict[str, str]) -> str:
    """Run one block in the scratch directory; what it printed, and on standard error what failed."""
    block = BLOCKS[name]
    text = printed_in(block.text, scratch)
    command = [sys.executable, "-W", "error", "-c", text]
    if block.language != "python":
        command = ["bash", "-euo", "pipefail", "-c", text]
    result = subprocess.run(
        command, cwd=scratch, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, f"{name}: {result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("run", ways.PLAIN, ids=lambda run: run.blocks[0])
def test_it_runs_as_printed_and_its_job_is_committed(run: ways.Run, tmp_path: Path):
    environment = path_with_command(tmp_path / "bin")
    scratch = tmp_path / "shared"
    scratch.mkdir()
    PREPARATIONS[run.given](scratch)
    printed = [run_block(name, scratch, environment) for name in run.blocks]
    (table,) = scratch.iterdir()
    assert data_files(table)
    assert ray_committer.list_jobs(str(table)) == []
    assert (table / "_SUCCESS").exists()
    if "ray-committer commit" in BLOCKS[run.blocks[-1]].text:
        assert "is committed" in printed[-1]


def test_an_undo_as_printed_leaves_nothing_of_a_recorded_job(tmp_path: Path):
    scratch = tmp_path / "shared"
    scratch.mkdir()
    PREPARATIONS["a recorded job"](scratch)
    printed = run_block(ways.UNDO, scratch, path_with_command(tmp_path / "bin"))
    assert "would be taken back" in printed
    assert "attempt 0, was aborted" in printed
    assert visible_files(scratch / "table") == {}
    assert ray_committer.list_jobs(str(scratch / "table")) == []


def test_a_task_that_is_tried_again_as_printed_adds_no_row(tmp_path: Path):
    scratch = tmp_path / "shared"
    scratch.mkdir()
    printed = run_block(ways.TRY_AGAIN, scratch, path_with_command(tmp_path / "bin"))
    assert "\ncommitted\nalready committed\n" in printed
    assert printed.count("run id flights.load.2026-01-31T00:00:00+00:00") == 1
    assert [path.read_bytes() for path in data_files(scratch / "table") if path.suffix == ".csv"] == [
        b"EWR,IAH\n"
    ]


def test_the_job_of_the_first_steps_is_what_they_say(tmp_path: Path):
    environment = path_with_command(tmp_path / "bin")
    (tmp_path / "shared").mkdir()
    write, commit = ways.FIRST_STEPS
    run_block(write, tmp_path / "shared", environment)
    assert visible_files(tmp_path / "shared/flights") == {}
    printed = run_block(commit, tmp_path / "shared", environment)
    assert visible_files(tmp_path / "shared/flights") == {
        f"origin={task}/part-0.csv": "EWR,IAH\n" for task in range(3)
    }
    assert "would move 3 files" in printed
    again = BLOCKS[commit].text.splitlines()[2]
    result = subprocess.run(
        ["bash", "-c", printed_in(again, tmp_path / "shared")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "already committed" in result.stdout


@pytest.mark.server
@pytest.mark.xdist_group("s3")
def test_the_files_that_are_registered_as_printed_are_the_rows_of_an_iceberg_table(tmp_path: Path):
    scratch = tmp_path / "shared"
    scratch.mkdir()
    PREPARATIONS["a table of small files"](scratch)
    environment = path_with_command(tmp_path / "bin")
    server = MotoServer(tmp_path)
    server.start()
    try:
        mine = {"TYPE": "glue", "GLUE__ENDPOINT": server.url, "WAREHOUSE": str(tmp_path / "iceberg")}
        keys = {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        environment |= {f"PYICEBERG_CATALOG__MINE__{name}": value for name, value in mine.items()} | keys

        def python(text: str) -> str:
            command = [sys.executable, "-c", f"{CATALOG}{text}"]
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout

        python("catalog.create_namespace('db')")
        run_block(ways.ICEBERG, scratch, environment)
        printed = python(ROWS)
    finally:
        server.stop()
    rows, of_one_day = map(json.loads, printed.splitlines())
    assert sorted((row["day"], row["x"]) for row in rows) == [(1, 1), (1, 1), (2, 2), (2, 2)]
    assert of_one_day == [{"x": 2, "day": 2}] * 2


def test_a_job_as_printed_leaves_fewer_files_with_the_same_rows(tmp_path: Path):
    scratch = tmp_path / "shared"
    scratch.mkdir()
    PREPARATIONS["a table of small files"](scratch)
    table = str(scratch / "table")
    before = ray_committer.snapshot(table)
    rows = [before.dataset(day).to_table().to_pylist() for day in ("day=1", "day=2")]
    run_block(ways.SMALL_FILES, scratch, path_with_command(tmp_path / "bin"))
    now = ray_committer.snapshot(table)
    assert [len(before.files(day)) for day in ("day=1", "day=2")] == [2, 2]
    assert [len(now.files(day)) for day in ("day=1", "day=2")] == [1, 2]
    assert [now.dataset(day).to_table().to_pylist() for day in ("day=1", "day=2")] == rows


def test_an_estimate_as_printed_needs_no_job(tmp_path: Path):
    scratch = tmp_path / "shared"
    scratch.mkdir()
    printed = run_block(ways.ESTIMATE, scratch, path_with_command(tmp_path / "bin"))
    assert printed.startswith(
        "1,000,000 files of 10,000 tasks in 100 partitions, on Google Cloud Storage\n"
    )
    assert list(scratch.iterdir()) == []


def test_the_contract_is_tried_as_printed(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text(CONTRACT + BLOCKS[ways.CONTRACT].text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "."]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert result.returncode == 0, result.stdout
    assert int(re.findall(r"(\d+) passed", result.stdout)[0]) > 30, result.stdout
