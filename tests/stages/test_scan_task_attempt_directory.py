"""A scan finds all that a task attempt wrote, one listing per directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.errors import TaskCommitError
from ray_committer.stages.scan_task_attempt_directory import scan_task_attempt_directory


def test_a_scan_finds_every_file_and_directory_with_its_evidence(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    (root / "p=1" / "q=é 日%").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "p=1" / "q=é 日%" / "f").write_text("four")
    (root / "top").write_text("")
    files, directories = scan_task_attempt_directory(store, str(root), str(dest))
    assert {(file.d.removeprefix(f"file:{dest}"), file.z) for file in files} == {
        ("/p=1/q=é%20日%25/f", 4),
        ("/top", 0),
    }
    top = next(file for file in files if file.d.endswith("top"))
    assert top.m == (root / "top").stat().st_mtime_ns // 1_000_000
    assert {(entry.d.removeprefix(f"file:{dest}"), entry.l, entry.t) for entry in directories} == {
        ("/empty", 1, 0),
        ("/p=1", 1, 0),
        ("/p=1/q=é%20日%25", 2, 0),
    }


def test_a_missing_attempt_directory_cannot_be_scanned(dest: Path, store, tmp_path: Path):
    with pytest.raises(TaskCommitError, match="run the task again"):
        scan_task_attempt_directory(store, str(tmp_path / "gone"), str(dest))


def test_a_linked_directory_in_a_task_attempt_is_refused_by_name(dest: Path, store, tmp_path: Path):
    root, elsewhere = tmp_path / "attempt", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    with pytest.raises(TaskCommitError, match="link: is a symbolic link to a directory"):
        scan_task_attempt_directory(store, str(root), str(dest))
