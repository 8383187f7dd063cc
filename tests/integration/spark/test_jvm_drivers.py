"""Spark drivers without Python, whose jobs a child process commits."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame

import ray_committer
from ray_committer.cli.main import main
from ray_committer.spark.session import bridge
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import (
    COMMAND,
    SparkSql,
    check_statements,
    environment,
    kill_when_files_appear,
    path_with_command,
    request_of_many_tasks,
    wait_until_committed,
)

FAILING = """INSERT OVERWRITE DIRECTORY 'out' USING csv
SELECT CAST(raise_error(concat('row ', id)) AS STRING) FROM range(4)"""
# A command that sets up and commits, and can abort nothing.
CANNOT_ABORT = """#!/bin/sh
case "$*" in "spark-job abort") exit 9;; esac
exec {command} "$@"
"""
# A command whose commits are cancelled when the first file is in place.
CANCELLED = """#!/bin/sh
case "$*" in "spark-job commit")
    exec 3<&0
    {command} "$@" <&3 & commit=$!
    while ! find {dest} -name _temporary -prune -o -name 'part-*' -print | grep -q .; do sleep 0.05; done
    kill -TERM $commit
    wait $commit
    exit $?;;
esac
exec {command} "$@"
"""
# A command of which a signal ends one action.
KILLED = """#!/bin/sh
case "$*" in "spark-job {action}") kill -{signal} $$;; esac
exec {command} "$@"
"""

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]


@pytest.fixture
def sql(tmp_path: Path) -> SparkSql:
    """With the lines that `spark-conf` prints, and the command on its path."""
    printed = CliRunner().invoke(main, ["spark-conf", "file:///t", "--command", "ray-committer"])
    return SparkSql(tmp_path, defaults=printed.stdout, PATH=path_with_command(tmp_path / "bin"))


@pytest.mark.wide
@pytest.mark.one_spark
def test_spark_sql_commits_what_it_creates_inserts_and_overwrites(sql: SparkSql):
    log = check_statements(sql)
    assert "`ray-committer spark-job commit`:   rename_files" in log
    assert "is NOT committed" in log


@pytest.mark.wide
@pytest.mark.one_spark
def test_spark_sql_without_a_command_says_what_to_set(tmp_path: Path):
    sql = SparkSql(tmp_path, PATH="/usr/bin:/bin")
    result = sql.run("INSERT OVERWRITE DIRECTORY 'out' USING csv SELECT 1", {})
    assert result.returncode != 0
    assert "`ray-committer` is not on its PATH" in result.stderr
    assert "set spark.ray_committer.command to" in result.stderr


@pytest.mark.one_spark
def test_a_child_ends_its_commit_when_the_driver_is_killed(sql: SparkSql):
    dest = sql.warehouse / "t"
    statement = "CREATE TABLE t USING csv PARTITIONED BY (p) AS SELECT id, id % 20 AS p FROM range(40)"
    driver = sql.start(statement, {"spark.ray_committer.max_requests_per_second": "20"})
    kill_when_files_appear(driver, dest)
    assert (dest / "_temporary").exists()
    wait_until_committed(dest)
    assert len(data_files(dest)) == 40


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_failed_write_is_aborted_through_the_command(tmp_path: Path):
    sql = SparkSql(tmp_path, PATH=path_with_command(tmp_path / "bin"))
    result = sql.run(FAILING, {})
    assert result.returncode != 0
    assert "row " in result.stderr + result.stdout
    assert ray_committer.list_jobs(str(tmp_path / "out")) == []
    assert "could not be aborted" not in sql.log.read_text()


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_write_whose_abort_fails_keeps_everything_and_logs_the_command(tmp_path: Path):
    command = tmp_path / "cannot-abort"
    command.write_text(CANNOT_ABORT.format(command=COMMAND))
    command.chmod(0o755)
    sql = SparkSql(tmp_path)
    result = sql.run(FAILING, {"spark.ray_committer.command": str(command)})
    assert result.returncode != 0
    (job,) = ray_committer.list_jobs(str(tmp_path / "out"))
    assert job.state == "running"
    (line,) = (line for line in sql.log.read_text().splitlines() if "could not be aborted" in line)
    assert line.startswith("WARN JobAbort: ")
    words = shlex.split(line.partition("; abort it with: ")[2])
    assert words[0] == "ray-committer"
    assert CliRunner().invoke(main, words[1:]).exit_code == 0
    assert ray_committer.list_jobs(str(tmp_path / "out")) == []


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_commit_that_is_cancelled_in_the_middle_is_kept(
    spark, configure, rows: DataFrame, dest: Path, tmp_path: Path
):
    """The child ends with an error, so Spark asks for an abort, which leaves a recorded job alone."""
    command = tmp_path / "cancelled"
    command.write_text(CANCELLED.format(command=COMMAND, dest=dest))
    command.chmod(0o755)
    configure(command=str(command), max_requests_per_second="4")
    with pytest.raises(Exception, match="cancelled"):
        rows.write.partitionBy("text").parquet(str(dest))
    (job,) = ray_committer.list_jobs(str(dest))
    assert job.state == "recorded"
    ray_committer.commit_job(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600


@pytest.mark.wide
def test_python_that_forgot_to_install_is_not_committed_by_what_is_on_its_path(tmp_path: Path):
    script = Path(__file__).with_name("forgot_install.py")
    result = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "t")],
        env=environment(PATH=path_with_command(tmp_path / "bin")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "no commit handler is installed in this driver; call ray_committer.spark.install" in (
        result.stdout
    )
    assert data_files(tmp_path / "t") == set()


@pytest.mark.one_spark
def test_python_may_ask_for_the_command_by_name(spark, configure, rows: DataFrame, tmp_path: Path):
    configure(command=COMMAND, executor="inline")
    dest = tmp_path / "t é"
    rows.write.partitionBy("text").parquet(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600
    assert json.loads((dest / "_SUCCESS").read_text())["committer"] == "ray_committer"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("/nowhere/ray-committer", r"cannot be started .*/nowhere/ray-committer.*install"),
        ("true", r"`true spark-job setup` gave no answer; check .*spark.ray_committer.command"),
        ("cat", r"(?s)`cat spark-job setup` ended without an answer.*No such file"),
    ],
)
def test_a_wrong_command_fails_the_write_before_any_task(
    spark, configure, rows: DataFrame, tmp_path: Path, command: str, text: str
):
    configure(command=command)
    with pytest.raises(Exception, match=text):
        rows.write.parquet(str(tmp_path / "t"))
    assert data_files(tmp_path) == set()


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("action", "signal", "said"),
    [
        ("setup", 9, "signal 9 (SIGKILL, by the kernel if memory was short) before it answered; "),
        ("commit", 15, "signal 15 before it answered; "),
    ],
)
def test_a_child_that_a_signal_has_ended_is_not_called_a_wrong_version(
    spark, configure, rows: DataFrame, tmp_path: Path, action: str, signal: int, said: str
):
    command = tmp_path / "killed"
    command.write_text(KILLED.format(command=COMMAND, action=action, signal=signal))
    command.chmod(0o755)
    configure(command=str(command))
    with pytest.raises(Exception, match=f"`.*killed spark-job {action}` was ended by signal") as caught:
        rows.write.parquet(str(tmp_path / "t"))
    text = str(caught.value)
    assert said in text
    assert f"this command finishes it: ray-committer commit file:{tmp_path}/t --job-id " in text
    assert f"(exit code {128 + signal})" in text
    assert "version" not in text.partition("this command")[0].partition("was ended by")[2]
    assert data_files(tmp_path / "t") == set()
    assert not (tmp_path / "t" / "_temporary").exists()


def test_a_wrong_setting_is_named(spark, configure, rows: DataFrame, tmp_path: Path):
    configure(command=COMMAND, executor="dask")
    with pytest.raises(Exception, match=r"spark\.ray_committer\.executor=dask: is not one of auto"):
        rows.write.parquet(str(tmp_path / "t"))


def test_a_deferred_commit_is_only_recorded(spark, configure, rows: DataFrame, tmp_path: Path):
    configure(command=COMMAND, commit="deferred")
    dest = tmp_path / "t"
    rows.write.parquet(str(dest))
    (job,) = ray_committer.list_jobs(str(dest))
    assert (job.state, data_files(dest)) == ("recorded", set())
    ray_committer.commit_job(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600


@pytest.mark.one_spark
def test_a_request_that_names_5000_tasks_reaches_the_child(spark, configure, dest: Path):
    configure(command=COMMAND, threads="4")
    request = request_of_many_tasks(dest, 5_000)
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    assert bridge(spark).handlerFor(hadoop).commitJob(request).strip() == "{}"
    assert b'"jobId": "job_1"' in (dest / "_SUCCESS").read_bytes()
    assert not (dest / "_temporary").exists()
