"""The commands and the code that docs/events.md prints are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ray_committer

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
