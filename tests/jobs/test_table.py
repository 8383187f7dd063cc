"""The public operations on tables with a log."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitConflictError, JobNotFoundError, SettingsError
from ray_committer.jobs.table import init_table, table_log
from tests.cli.commands import run


def commit(dest: Path, name: str, mode: str = "append") -> ray_committer.CommitReport:
    options = ray_committer.CommitOptions(mode=ray_committer.ConflictMode(mode))
    job = ray_committer.setup_job(str(dest), f"job_{name}", options=options)
    with (
        ray_committer.task_attempt(str(dest), job, task=0) as attempt,
        attempt.open(f"day=1/{name}") as file,
    ):
        file.write(b"x")
    return ray_committer.commit_job(str(dest), job, options=options)


def test_a_table_shows_every_job_since_it_was_made(dest: Path):
    dest.mkdir(exist_ok=True)
    commit(dest, "before")
    imported = init_table(str(dest))
    assert (imported.version, imported.files, imported.bytes) == (1, 1, 1)
    assert commit(dest, "a").table_version == 4
    assert commit(dest, "b", "overwrite").table_version == 6
    entries = table_log(str(dest), since=2)
    assert [(one.version, one.kind, one.job_id, one.claim) for one in entries] == [
        (3, "claim", "job_a", 3),
        (4, "commit", "job_a", 3),
        (5, "claim", "job_b", 5),
        (6, "commit", "job_b", 5),
        (7, "done", "job_b", 5),
    ]
    assert [(one.mode, one.partitions) for one in entries[::2]] == [
        ("append", ("day=1",)),
        ("overwrite", ("",)),
        (None, ()),
    ]
    assert [one.files for one in entries] == [1, 0, 1, 2, 0]
    with pytest.raises(CommitConflictError):
        init_table(str(dest))


def test_a_destination_without_a_log_is_named(dest: Path):
    with pytest.raises(JobNotFoundError, match="is not a table with a log"):
        table_log(str(dest))


def test_an_unknown_isolation_is_named(dest: Path):
    with pytest.raises(SettingsError, match="serializable, snapshot, none"):
        init_table(str(dest), isolation="strict")


def test_the_commands_do_the_same(dest: Path):
    dest.mkdir(exist_ok=True)
    commit(dest, "before")
    done = run("table", "init", str(dest))
    assert (done.exit_code, "is a table with a log now, with 1 file, 1 byte" in done.stdout) == (0, True)
    commit(dest, "a", "overwrite")
    shown = run("table", "log", str(dest), "--since", "2").stdout.splitlines()
    assert [line.split("UTC")[1].split() for line in shown] == [
        ["claim", "job_a:", "overwrite", "in", "the", "whole", "table,", "1", "file,", "1", "byte"],
        ["commit", "job_a:", "version", "3,", "1", "file,", "1", "byte", "removed"],
        ["done", "job_a:", "version", "3"],
    ]
    again = run("table", "init", str(dest))
    assert again.exit_code == 4
    assert "is a table with a log already" in again.stderr
    assert run("table", "log", str(dest / "day=1")).exit_code == 1
