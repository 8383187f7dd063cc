"""What docs/events.md prints: its commands and code are run, what it shows is what is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer.cli.lines import loaded_text
from ray_committer.events import JobLoaded
from ray_committer.report.amounts import counted, seconds_text
from ray_committer.report.heartbeat import files_text, progress_line, size_texts, speed_texts
from ray_committer.report.progress import Progress

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "events.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
RUN = [text for language, text in BLOCKS if language or "ray-committer commit" in text]
CONSOLE = {
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}
"""No collector of spans runs here."""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The directory that all nodes mount, with a job of three tasks at ``table``."""
    table = str(tmp_path / "shared" / "table")
    ray_committer.setup_job(table, "job_1")
    for task in range(3):
        with ray_committer.task_attempt(table, "job_1", task) as attempt:
            Path(attempt.path(f"part-{task}")).write_text("a,b\n")
    ray_committer.record_job(table)
    return tmp_path / "shared"


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN, ids=lambda text: text.strip().splitlines()[-1])
def test_it_runs_as_printed(block: str, shared: Path, tmp_path: Path):
    program = tmp_path / "bin" / "ray-committer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ray_committer.cli "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    text = block.replace("/shared/", f"{shared}/")
    command = ["bash", "-euc", text] if "ray-committer" in text else [sys.executable, "-c", text]
    printed = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **CONSOLE, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert ('"name": "rename_files"' in printed) == block.startswith("export OTEL_")
    assert sorted(found.name for found in (shared / "table").iterdir())[1:] == [
        "part-0",
        "part-1",
        "part-2",
    ]
    if "commit.jsonl" in block:
        lines = [json.loads(line) for line in (tmp_path / "commit.jsonl").read_text().splitlines()]
        assert lines[0]["event"] == "log_opened"
        assert lines[-1]["stage"] == "committer_commit_job"


def test_what_it_runs_is_all_but_an_installation_and_what_is_shown():
    assert len(RUN) == 4
    (shown, lines, installed) = [text for _, text in BLOCKS if text not in RUN]
    assert "38,400 of 100,000 files" in shown
    assert "load_manifests" in lines
    assert installed.startswith("pip install 'ray-committer[otel]'")


def test_what_it_shows_is_what_is_shown():
    renaming = Progress("rename_files", 21.0, is_renaming=True, total_files=100_000, total_bytes=6.4e9)
    line = {"files": 20_000, "bytes": 1.3e9, "rate": 2_000.0, "seconds_left": 40.0}
    drawn = {"files": 38_400, "bytes": 2.5e9, "rate": 2_013.0, "seconds_left": 30.6, "seconds": 19.0}
    assert f"\n  {loaded_text(JobLoaded(200, 100_000, 6_400_000_000, resumed=False))}\n" in PAGE
    assert f"\n  {progress_line(replace(renaming, **line))}\n" in PAGE
    now = replace(renaming, **drawn)
    assert re.search(rf"\n\S rename_files ━+╸━+ {files_text(now)}\n", PAGE)
    texts = [seconds_text(now.seconds), *size_texts(now), *speed_texts(now), counted(8, "worker")]
    assert f"\n  {', '.join(texts)}\n" in PAGE
