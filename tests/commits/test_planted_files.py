"""A planted manifest hangs no command, and no command follows it or reads it without a bound."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ray_committer
from ray_committer.cli.main import main
from ray_committer.errors import ManifestError
from ray_committer.job_files import manifests as module
from ray_committer.stores.base import FileStatus

BLANKS = 300_000_000


def blanks(path: Path) -> None:
    path.touch()
    os.truncate(path, BLANKS)  # it takes no room on the disk


PLANTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
    "manifest": (lambda path: path.symlink_to(path.parent / "other"), "is a symbolic link"),
    "fifo": (os.mkfifo, "is not a regular file"),
    "blanks": (blanks, f"is {BLANKS} bytes long"),
}


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("frozen", [False, True])
def test_no_command_reads_a_planted_manifest(name: str, frozen: bool, dest: Path, write_job):
    plant, what = PLANTED[name]
    job = write_job({0: {"a": "x"}})
    place = Path(job.frozen if frozen else job.manifests)
    Path(job.manifests).rename(place)
    plant(place / "task_x-manifest.json")
    for words in (["commit", str(dest), "--dry-run"], ["commit", str(dest), "--expect-tasks", "2"]):
        found = run(*words)
        assert found.exit_code == 1
        assert what in found.output
    assert run("status", str(dest)).exit_code == 0
    assert run("show", str(place / "task_x-manifest.json")).exit_code == 1
    assert run("vacuum", str(dest), "--dry-run").exit_code == 0
    assert run("doctor", str(dest)).exit_code == 0
    assert run("abort", str(dest)).exit_code == 0
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize("name", ["device", "fifo"])
def test_a_planted_success_is_not_read(name: str, dest: Path, write_job):
    write_job({0: {"a": "x"}})
    PLANTED[name][0](dest / "_SUCCESS")
    found = run("status", str(dest))
    assert found.exit_code == 1
    assert "_SUCCESS: is" in found.output
    assert "so it is not used" in found.output
    assert run("commit", str(dest), "--expect-tasks", "1").exit_code == 0
    assert json.loads((dest / "_SUCCESS").read_text())["jobId"] == "job_1"


@pytest.mark.parametrize("name", ["device", "fifo"])
def test_a_planted_entry_is_not_taken_into_a_log(name: str, dest: Path, write_job):
    ray_committer.init_table(str(dest))
    write_job({0: {"day=1/a": "x"}})
    log = dest / "_ray_committer" / "log" / "000000000000"
    last = max(int(path.name[:3]) for path in log.iterdir())
    PLANTED[name][0](log / f"{last + 1:03d}.entry")
    found = run("commit", str(dest), "--expect-tasks", "1")
    assert found.exit_code in (1, 3)
    assert "so it is not used" in found.output


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (FileStatus("/m", is_directory=True), "a directory"),
        (FileStatus("/m", is_directory=False), "empty"),
        (FileStatus("/m", is_directory=False, size=module.MOST_BYTES + 1), "268435457 bytes long"),
    ],
)
def test_a_listing_shows_what_is_no_manifest(status: FileStatus, what: str):
    with pytest.raises(ManifestError, match=f"/m: is {what}, not a task manifest"):
        module.check_listed(status)
