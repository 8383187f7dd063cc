"""``ray-committer explain``: how an error is named, and what is listed; its texts are docs/errors.md."""

from __future__ import annotations

import json
import re

import pytest

from ray_committer.cli import explain as module
from tests.cli.commands import run


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


def test_a_wheel_has_the_page_beside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "ray_committer"
    package.mkdir()
    monkeypatch.setattr(module.errors, "__file__", str(package / "errors.py"))
    missing = run("explain", "bug")
    assert missing.exit_code == 1
    assert "docs/errors.md: No such file or directory" in missing.stderr
    page = "## RC-bug\n\nOurs.\n\n- Data: safe\n- Next: wait\n- `E`, exit code 1\n"
    (package / "errors.md").write_text(page)
    assert "Means  Ours." in run("explain", "bug").stdout
