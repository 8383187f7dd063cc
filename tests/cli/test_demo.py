"""``ray-committer demo``: what its own check cannot tell, because it is what the check must find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ray_committer.cli import demo
from ray_committer.errors import RayCommitterError
from tests.cli.commands import TERMINAL, run


@pytest.mark.slow
def test_a_commit_is_killed_in_the_middle_and_finished_by_the_same_command(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "ray_committer.cli", "demo", "here"],
        cwd=tmp_path,
        env=TERMINAL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    commits = [number for number, line in enumerate(lines) if line.startswith("$ ray-committer commit")]
    assert lines[commits[0]] == lines[commits[1]]
    between = "\n".join(lines[commits[0] : commits[1]])
    assert "killed: " in between
    assert "which has stopped" in between
    assert "an earlier run had begun this commit; it was continued" in done.stdout
    assert "<html" in (tmp_path / "here" / "report.html").read_text()
    assert len(list((tmp_path / "here" / "flights").rglob("*.csv"))) == demo.FILES


def test_a_directory_that_is_there_is_refused_and_kept(tmp_path: Path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    result = run("demo", str(tmp_path))
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_directory_that_cannot_be_made_is_refused_at_once(tmp_path: Path):
    (tmp_path / "file").touch()
    result = run("demo", str(tmp_path / "file" / "here"))
    assert result.exit_code == 2
    assert "here: cannot be made (Not a directory); name another directory" in result.stderr


def test_a_commit_that_was_not_killed_is_not_called_killed(tmp_path: Path):
    with pytest.raises(RayCommitterError, match="ended before it could be killed"):
        demo.kill_in_the_middle(["--version"], str(tmp_path))


@pytest.mark.parametrize("harm", ["lost", "other", "left"])
def test_the_check_finds_what_must_not_be(tmp_path: Path, harm: str):
    table = tmp_path / "flights"
    for number in range(demo.FILES):
        name = f"day={number % demo.DAYS:02d}/part-{number}"
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(demo.content(name))
    demo.check(str(table))
    victim = table / "day=00" / "part-0"
    if harm == "lost":
        victim.unlink()
    elif harm == "other":
        victim.write_bytes(b"")
    else:
        (table / "_temporary").mkdir()
    with pytest.raises(RayCommitterError, match="please report this"):
        demo.check(str(table))
