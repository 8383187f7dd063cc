"""The public operations on tables with a log."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitConflictError, JobNotFoundError, PreflightError, SettingsError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.table import init_table, table_log
from ray_committer.tables.log import read_definition
from tests.cli.commands import run

APPEND = CommitOptions()


def write(dest: Path, name: str, options: CommitOptions = APPEND, directory: str = "day=1") -> str:
    job = ray_committer.setup_job(str(dest), f"job_{name}", options=options)
    with (
        ray_committer.task_attempt(str(dest), job, task=0) as attempt,
        attempt.open(f"{directory}/{name}") as file,
    ):
        file.write(b"x")
    return job


def commit(dest: Path, name: str, mode: str = "append") -> ray_committer.CommitReport:
    options = CommitOptions(mode=ray_committer.ConflictMode(mode))
    return ray_committer.commit_job(str(dest), write(dest, name, options), options=options)


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


def test_a_table_can_be_made_before_its_first_job(dest: Path):
    table = dest / "new"
    assert init_table(str(table)).files == 0
    assert commit(table, "a").table_version == 4
    assert (table / "day=1" / "a").exists()


@pytest.mark.parametrize("name", ["new", "new/day=1", "day=1/new", "day=1"])
def test_a_table_in_a_table_is_refused(dest: Path, name: str):
    init_table(str(dest))
    with pytest.raises(PreflightError, match="is a table with a log"):
        init_table(str(dest / name))
    assert not (dest / name).exists()


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


def test_a_table_can_keep_the_files_that_jobs_replace(dest: Path):
    dest.mkdir(exist_ok=True)
    commit(dest, "before")
    assert run("table", "init", str(dest), "--keep-replaced").exit_code == 0
    commit(dest, "a", "overwrite")
    assert (dest / "_ray_committer" / "removed" / "3" / "day=1" / "before.kept").read_bytes() == b"x"
    assert [one.kept for one in table_log(str(dest), since=2)] == [False, True, False]
    assert "1 file, 1 byte kept" in run("table", "log", str(dest)).stdout


@pytest.mark.parametrize(
    ("text", "flags", "is_kept"),
    [
        ("true", (), True),
        ("TRUE", (), True),
        ("false", (), False),
        ("auto", (), False),
        ("true", ("--no-keep-replaced",), False),
    ],
)
def test_whether_a_table_keeps_them_can_be_said_in_the_environment(
    dest: Path, text: str, flags: tuple[str, ...], is_kept: bool
):
    dest.mkdir(exist_ok=True)
    done = run("table", "init", str(dest), *flags, RAY_COMMITTER_KEEP_REPLACED=text)
    assert done.exit_code == 0, done.stderr
    found = read_definition(LocalStore(StoreSpec("file")), TablePlaces(str(dest)))
    assert found is not None
    assert found.keep_replaced is is_kept


def test_a_word_that_is_not_that_of_a_setting_is_refused(dest: Path):
    dest.mkdir(exist_ok=True)
    done = run("table", "init", str(dest), RAY_COMMITTER_KEEP_REPLACED="yes")
    assert done.exit_code == 2
    assert "'yes' must be true or false, or auto" in done.stderr
    assert list(dest.iterdir()) == []


def test_a_job_that_only_its_own_process_can_finish_comes_with_the_one_command_that_ends_it(dest: Path):
    init_table(str(dest))
    job = new_job_attempt(str(dest), "undo-1", 0)
    setup_job(LocalStore(StoreSpec("file")), job, from_log=True)
    give_up = f"ray-committer abort {dest} --job-id undo-1"
    (found,) = ray_committer.list_jobs(str(dest))
    assert (found.state, found.command, found.undo_command) == ("running", None, give_up)
    shown = run("status", str(dest)).stdout
    assert f"only its own process can finish it\n  if that has ended, give it up: {give_up}" in shown
    assert "ray-committer commit" not in shown
    assert "run `commit" not in shown
    assert run(*give_up.split()[1:]).exit_code == 0
    assert ray_committer.list_jobs(str(dest)) == []


def test_commands_name_the_claim_of_a_job_that_was_refused(dest: Path):
    init_table(str(dest))
    commit(dest, "before")
    with pytest.raises(CommitConflictError, match=r"still has the claim of this job \(version 5\)"):
        commit(dest, "a", "error_partitions")
    (job,) = ray_committer.list_jobs(str(dest))
    assert (job.claim, job.partitions, job.table_version) == (5, ("day=1",), None)
    shown = run("status", str(dest)).stdout
    assert "other jobs wait for its claim on day=1 (version 5)" in shown
    plan = ray_committer.plan_abort(str(dest), "job_a")
    assert (plan.claim, plan.partitions) == (5, ("day=1",))
    dry = run("abort", str(dest), "--dry-run").stdout
    assert "its claim on day=1 would end (version 5 of the table's log)" in dry
    dry = run("commit", str(dest), "--job-id", "job_a", "--dry-run").stdout
    assert "has claimed day=1 in the log of the table (version 5)" in dry
    week_ago = time.time() - 8 * 86_400
    for path in [*dest.rglob("*"), dest]:
        os.utime(path, (week_ago, week_ago))
    before = {path for path in (dest / "_ray_committer").rglob("*") if path.is_file()}
    assert (
        "its claim in the log of the table (version 5) ends with it" in run("vacuum", str(dest)).stdout
    )
    assert table_log(str(dest), since=5)[0].kind == "abort"
    assert before < {path for path in (dest / "_ray_committer").rglob("*") if path.is_file()}


def test_a_dry_run_names_what_would_be_claimed_and_waited_for(dest: Path):
    init_table(str(dest))
    commit(dest, "before")
    with pytest.raises(CommitConflictError):
        commit(dest, "a", "error_partitions")
    job = write(dest, "b")
    plan = ray_committer.plan_job(str(dest), job)
    assert (plan.claims, plan.claim) == (("day=1",), None)
    assert "job job_a (version 5) is at work in day=1; the commit would wait" in plan.unfinished[0]
    dry = run("commit", str(dest), "--job-id", job, "--dry-run").stdout
    assert "would claim day=1 in the log of the table" in dry
    assert len(table_log(str(dest))) == 5


def test_the_command_line_says_what_a_job_has_read(dest: Path):
    init_table(str(dest))
    job = write(dest, "a", directory="sums")
    commit(dest, "b")
    words = ["commit", str(dest), "--job-id", job, "--assume-complete", "--reads", "day=1"]
    refused = run(*words, "--reads", "day=2")
    assert refused.exit_code == 4
    assert "job job_b (version 3) has written to day=1" in refused.stderr
    assert "--reads day=1 --reads day=2" in refused.stderr
