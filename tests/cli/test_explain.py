"""``ray-committer explain``: how an error is named, and what is listed; its texts are docs/errors.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.docs.blocks import ROOT

PACKAGE = ROOT / "ray_committer"


@pytest.mark.parametrize(
    "name", ["RC-commit-conflict", "commit-conflict", "rc-Commit-CONFLICT", "CommitConflictError"]
)
def test_an_error_is_found_by_its_id_in_any_case_and_by_its_class(name: str):
    result = run("explain", name)
    assert result.exit_code == 0
    assert result.stdout.startswith("RC-commit-conflict\n  Means   Another file is in the place of")


@pytest.mark.parametrize("name", ["commit", "OSError", "", "RC-"])
def test_what_is_no_error_is_not_found(name: str):
    result = run("explain", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no such error {name!r}" in result.stderr


def test_without_an_id_all_errors_are_listed():
    pages = json.loads(run("explain", "--output", "json").stdout)["errors"]
    shown = re.findall(r"^  (RC-\S+)  +(\S+)", run("explain").stdout, flags=re.MULTILINE)
    assert shown == [(page["id"], page["meaning"].split()[0]) for page in pages]
    assert len(pages) > 40


def test_no_command_is_broken_and_no_line_is_wider_than_the_terminal():
    lines = run("explain", "commit-state-unknown").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("`ray-committer abort DEST --undo`" in line for line in lines)


def test_a_wheel_has_the_page_beside_the_package(tmp_path: Path):
    package = shutil.copytree(
        PACKAGE, tmp_path / "ray_committer", ignore=shutil.ignore_patterns("java", "jars", "__pycache__")
    )
    missing = explained(tmp_path)
    assert missing.returncode == 1
    assert "docs/errors.md: No such file or directory" in missing.stderr
    page = "## RC-bug\n\nOurs.\n\n- Data: safe\n- Next: wait\n- `E`, exit code 1\n"
    (package / "errors.md").write_text(page)
    assert "Means  Ours." in explained(tmp_path).stdout


def explained(root: Path) -> subprocess.CompletedProcess[str]:
    """What the package in a directory explains of an error."""
    return subprocess.run(
        [sys.executable, "-m", "ray_committer.cli", "explain", "bug"],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
