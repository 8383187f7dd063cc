"""Run ids in the public functions, the command line and the writers of Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.cli.main import main
from ray_committer.errors import SettingsError
from ray_committer.writers import job as arrow_job
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import WriteMode

RUN = "orders-2026-01-31"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    dest = tmp_path / "table"
    dest.mkdir()
    ray_committer.init_table(str(dest))
    return dest


def write(table: Path, job_id: str, run_id: str | None = RUN, day: int = 1) -> None:
    options = CommitOptions(run_id=run_id)
    ray_committer.setup_job(str(table), job_id, options=options)
    with (
        ray_committer.task_attempt(str(table), job_id, 0) as attempt,
        attempt.open(f"day={day}/{job_id}.csv") as file,
    ):
        file.write(b"EWR")


def command(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, words, env=environment)


def test_a_command_says_that_the_work_is_committed_already_and_again(table: Path):
    for job_id in ("first", "second"):
        write(table, job_id)
    words = ("commit", str(table), "--assume-complete", "--job-id")
    assert command(*words, "first", "--run-id", RUN).exit_code == 0
    for _ in range(2):
        found = command(*words, "second", "--run-id", RUN)
        assert found.exit_code == 0
        assert f"committed already as version 4: run id {RUN}" in found.output
    assert [one.name for one in table.rglob("*.csv")] == ["first.csv"]
    for words in (("history", str(table)), ("status", str(table))):
        assert f"run id {RUN}" in command(*words).output
        assert f'"run_id": "{RUN}"' in command(*words, "--output", "json").output
    assert f"run id is {RUN}." in command("show", str(table / "day=1/first.csv")).output
    assert f"run id {RUN}" in command("table", "log", str(table)).output
    assert f"run_id: {RUN}" in command("show", str(table / "_SUCCESS")).output


def test_a_command_takes_the_run_id_of_the_set_up_or_of_the_environment(table: Path):
    write(table, "first", run_id=None)
    write(table, "second", run_id=None)
    write(table, "third")
    words = ("commit", str(table), "--assume-complete", "--output", "json", "--job-id")
    found = [
        command(*words, "first", RAY_COMMITTER_RUN_ID=RUN),
        command(*words, "second", RAY_COMMITTER_RUN_ID=RUN),
        command(*words, "third"),
    ]
    assert [one.exit_code for one in found] == [0, 0, 0]
    said = [json.loads(one.stdout) for one in found]
    assert [one["outcome"] for one in said] == ["committed", "already committed", "already committed"]
    assert [one["run_id"] for one in said] == [RUN, RUN, RUN]
    assert [one["committed_by"] for one in said] == [None, "first", "first"]


def test_a_plan_says_what_a_commit_would_say(table: Path):
    for job_id in ("first", "second"):
        write(table, job_id)
    ray_committer.commit_job(str(table), "first")
    plan = ray_committer.plan_job(str(table), "second")
    assert plan.unfinished == (
        f"{table}: run id {RUN} is committed already as version 4; the commit would remove the files of "
        f"this job",
    )
    assert (table / "_temporary/second").exists()


def test_status_shows_the_run_id_of_a_job_at_work(table: Path):
    write(table, "first")
    assert [one.run_id for one in ray_committer.list_jobs(str(table))] == [RUN]


def test_other_work_ends_with_exit_code_2_and_stays(table: Path):
    write(table, "first")
    write(table, "second", day=2)
    ray_committer.commit_job(str(table), "first")
    found = command("commit", str(table), "--assume-complete", "--job-id", "second")
    assert found.exit_code == 2
    assert "has done other work: append of day=1, not append of day=2" in found.output
    assert "RC-bad-setting" in found.output
    assert (table / "_temporary/second").exists()


def test_a_second_write_of_this_process_is_refused_until_the_first_is_undone(table: Path):
    for job_id in ("first", "second"):
        write(table, job_id)
    report = ray_committer.commit_job(str(table), "first")
    with pytest.raises(SettingsError, match="this session has written under run id"):
        ray_committer.commit_job(str(table), "second")
    ray_committer.undo_version(str(table), report.table_version or 0)
    assert ray_committer.commit_job(str(table), "second").outcome is Outcome.COMMITTED


def test_without_a_log_nothing_is_set_up(tmp_path: Path):
    with pytest.raises(SettingsError, match=rf"ray-committer table init {tmp_path}/plain, or do not"):
        write(tmp_path / "plain", "first")
    assert not (tmp_path / "plain").exists()


@pytest.mark.parametrize("mode", [WriteMode.ERROR, WriteMode.ERROR_PARTITIONS, WriteMode.OVERWRITE])
def test_a_writer_that_wants_no_data_is_run_again(table: Path, mode: WriteMode):
    rows = pa.table({"day": [1], "x": [2]})
    reports = []
    for _ in range(2):
        options = CommitOptions(run_id=RUN, known_jobs=())
        job = arrow_job.start(str(table), FileLayout("csv", ("day",), {}), mode=mode, options=options)
        assert job is not None
        tasks = [arrow_job.write_attempt(job, 0, [rows])]
        reports.append(arrow_job.commit(job, tasks, executor="inline"))
    first, second = (one for one in reports if one is not None)
    assert (second.outcome, second.committed_by) == (Outcome.ALREADY_COMMITTED, first.job_id)
    assert len(list(table.rglob("*.csv"))) == 1
