"""``df.write`` calls that fail, wait or are deferred; those that end well are in `test_matrix.py`."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import ray_committer
from ray_committer import CommitReport, Outcome
from ray_committer.cli.main import main
from ray_committer.events import Event, StageStarted
from ray_committer.protocol.iostatistics import Mean
from ray_committer.spark import Installation, install, uninstall
from ray_committer.spark.session import bridge
from ray_committer.spark.settings import MODE_KEY
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY
from tests.integration.spark.conftest import data_files, fail_task

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def report(installation: Installation) -> CommitReport:
    assert installation.last_report is not None
    return installation.last_report


def test_success_adds_up_the_statistics_that_tasks_saved_in_their_manifests(
    spark, installation, rows, tmp_path: Path
):
    rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
    success = ray_committer.read_document(str(tmp_path / "t")).success
    assert success is not None
    assert success.iostatistics is not None
    found, tasks = success.iostatistics, report(installation).manifests
    for name, value in (
        ("committer_task_file_count", report(installation).files),
        ("committer_task_file_size", report(installation).bytes),
    ):
        assert found.counters[name] == value > 0
        assert found.meanstatistics[name] == Mean(tasks, value)
    assert found.counters["committer_task_directory_count"] >= report(installation).directories
    for name in ("task_stage_setup", "task_stage_commit"):
        assert found.counters[name] == found.meanstatistics[f"{name}.mean"].samples == tasks


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_job_that_fails_leaves_what_was_there(spark, installation, rows, tmp_path: Path, mode: str):
    dest = tmp_path / "t"
    rows.write.parquet(str(dest))
    before = {name: (dest / name).read_bytes() for name in data_files(dest)}
    fail = fail_task(str(tmp_path / "ran"), times=9)
    with pytest.raises(Exception, match="simulated failure of a task"):
        rows.select(fail("id").alias("id")).write.mode(mode).parquet(str(dest))
    assert {name: (dest / name).read_bytes() for name in data_files(dest)} == before
    assert not (dest / "_temporary").exists() or not list((dest / "_temporary").rglob("*.json"))


def test_a_cancelled_job_leaves_nothing(spark: SparkSession, installation, rows, tmp_path: Path):
    dest, begun = tmp_path / "t", tmp_path / "begun"

    @udf("long")
    def wait(value):
        begun.touch()
        time.sleep(60)
        return value

    def write() -> None:
        spark.sparkContext.setJobGroup("to be cancelled", "a write", interruptOnCancel=True)
        rows.select(wait("id").alias("id")).write.parquet(str(dest))

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        while not begun.exists():
            time.sleep(0.05)
        spark.sparkContext.cancelJobGroup("to be cancelled")
        with pytest.raises(Exception, match="cancelled"):
            writing.result(60)
    assert data_files(dest) == set()
    assert not dest.exists() or list(dest.rglob("*-manifest.json")) == []


def test_a_refused_commit_raises_our_sentence_and_leaves_the_destination(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """A zombie replaces a manifest after its task was counted: the digests no longer agree."""
    dest = tmp_path / "t"
    rows.write.parquet(str(dest))
    before = data_files(dest)

    def replace_a_manifest(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_load_manifests":
            path = sorted(dest.rglob("*-manifest.json"))[0]
            path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version": 1'))

    installation = install(spark, on_event=replace_a_manifest)
    try:
        with pytest.raises(Exception, match="not what the successful task attempt saved"):
            rows.write.mode("overwrite").parquet(str(dest))
        assert isinstance(installation.last_error, ray_committer.errors.PreflightError)
        assert data_files(dest) == before
        assert not (dest / "_temporary").exists()
    finally:
        uninstall(spark)


def test_a_conflict_that_is_found_before_the_record_ends_the_job_and_is_one_line_in_the_log(
    spark, installation, rows, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    dest = tmp_path / "t"
    dest.mkdir()
    (dest / "p=1").write_text("a file where a directory must go")
    with pytest.raises(Exception, match="p=1: is a file where the job needs a directory"):
        rows.write.mode("append").partitionBy("p").parquet(str(dest))
    assert isinstance(installation.last_error, ray_committer.errors.CommitConflictError)
    assert data_files(dest) == {"p=1"}
    assert not (dest / "_temporary").exists()
    (logged,) = [one for one in caplog.records if one.name.startswith("ray_committer.")]
    assert not logged.exc_info
    assert "failed: CommitConflictError: " in logged.getMessage()
    assert "Traceback" not in caplog.text


def test_a_commit_that_stopped_after_its_record_is_kept_and_finished_by_the_command(
    spark, rows, tmp_path: Path
):
    dest = tmp_path / "t"

    def block(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_create_target_dirs":
            (dest / "p=1").write_text("a file where a directory must go")

    installation = install(spark, on_event=block)
    try:
        with pytest.raises(Exception, match="p=1: is a file where the job needs a directory"):
            rows.write.mode("append").partitionBy("p").parquet(str(dest))
    finally:
        uninstall(spark)
    assert isinstance(installation.last_error, ray_committer.errors.CommitConflictError)
    (job,) = ray_committer.list_jobs(str(dest))
    assert job.state == "recorded"
    (dest / "p=1").unlink()
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0
    assert spark.read.parquet(str(dest)).count() == 600
    assert not (dest / "_temporary").exists()


def test_without_a_handler_the_write_fails_before_any_task_runs(
    spark, installation, rows, tmp_path: Path
):
    bridge(spark).removeHandler(installation.token)
    ran = fail_task(str(tmp_path / "ran"), times=0)
    with pytest.raises(Exception, match="no commit handler is installed"):
        rows.select(ran("id").alias("id")).write.parquet(str(tmp_path / "t"))
    assert list(tmp_path.glob("ran-*")) == []
    assert data_files(tmp_path) == set()


def test_sparks_own_committer_is_used_only_when_asked_for_by_name(spark, rows, tmp_path: Path):
    install(spark, commit="spark")
    try:
        rows.write.parquet(str(tmp_path / "t"))
    finally:
        uninstall(spark)
    assert (tmp_path / "t" / "_SUCCESS").stat().st_size == 0
    assert spark.read.parquet(str(tmp_path / "t")).count() == 600


def test_uninstall_restores_what_was_there(spark, tmp_path: Path):
    before = spark.conf.get(PROTOCOL_KEY)
    install(spark)
    install(spark)
    assert spark.conf.get(PROTOCOL_KEY) == PROTOCOL_CLASS
    uninstall(spark)
    uninstall(spark)
    assert spark.conf.get(PROTOCOL_KEY) == before
    assert spark.conf.get(MODE_KEY, None) is None
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    assert bridge(spark).handlerFor(hadoop) is None


def test_a_deferred_commit_shows_nothing_until_the_command_ran(spark, rows, tmp_path: Path):
    dest = tmp_path / "t"
    install(spark, commit="deferred")
    try:
        rows.write.partitionBy("p").parquet(str(dest))
    finally:
        uninstall(spark)
    assert data_files(dest) == set()
    assert not (dest / "_SUCCESS").exists()
    refused = CliRunner().invoke(main, ["abort", str(dest)])
    assert refused.exit_code == 4
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0, result.output
    assert "run MSCK REPAIR TABLE for new partitions and REFRESH TABLE" in " ".join(
        result.output.split()
    )
    assert spark.read.parquet(str(dest)).count() == 600
    assert (dest / "_SUCCESS").is_file()


def test_a_job_that_commits_on_ray_is_refused_before_its_tasks_without_ray(spark, rows, tmp_path: Path):
    import ray

    assert not ray.is_initialized()
    install(spark, executor="ray")
    try:
        ran = fail_task(str(tmp_path / "ran"), times=0)
        with pytest.raises(Exception, match="Ray is not connected in this driver"):
            rows.select(ran("id").alias("id")).write.parquet(str(tmp_path / "t"))
    finally:
        uninstall(spark)
    assert list(tmp_path.glob("ran-*")) == []
    assert not ray.is_initialized()


def test_sessions_of_one_driver_are_each_committed(spark: SparkSession, rows, tmp_path: Path):
    other = spark.newSession()
    first, second = install(spark), install(other)
    try:
        for session, name in ((spark, "a"), (other, "b")):
            session.range(10).write.parquet(str(tmp_path / name))
        uninstall(other)
        rows.write.parquet(str(tmp_path / "c"))
        assert report(first).manifests == 3
        assert report(second).outcome is Outcome.COMMITTED
    finally:
        uninstall(spark)
        uninstall(other)


def test_who_waits_for_a_write_sees_how_far_its_commit_is(
    spark, rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def slow(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            time.sleep(0.5)

    install(spark, on_event=slow, progress_seconds=0.1)
    try:
        rows.write.parquet(str(tmp_path / "t"))
    finally:
        uninstall(spark)
    assert f"ray_committer: {tmp_path}/t: rename_files, " in capsys.readouterr().err.replace("file:", "")


def jobs_in_ui(spark: SparkSession, dest: Path) -> dict[int, str]:
    """What Spark's UI shows of the commits to a destination, by the numbers of its jobs."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = [listed.apply(number) for number in range(listed.size())]
    named = {job.jobId(): job.description().get() for job in jobs if job.description().isDefined()}
    prefix = f"ray_committer: file:{dest}: "
    return {
        number: text.replace("file:///", "file:/").removeprefix(prefix)
        for number, text in sorted(named.items())
        if text.replace("file:///", "file:/").startswith(prefix)
    }


@pytest.mark.wide
def test_a_commit_that_takes_ten_seconds_is_shown_in_sparks_ui_with_its_query(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    quick, long = tmp_path / "quick", tmp_path / "long"

    def wait(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            deadline = time.monotonic() + 60
            while not jobs_in_ui(spark, long) and time.monotonic() < deadline:
                time.sleep(0.2)

    install(spark, on_event=lambda _: None, progress_seconds=0.1)
    try:
        rows.write.parquet(str(quick))
        install(spark, on_event=wait, progress_seconds=0.1)
        spark.sparkContext.setJobDescription("of the user")
        rows.write.parquet(str(long))
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "of the user"
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)
        uninstall(spark)
    wait_for = time.monotonic() + 30
    while len(jobs_in_ui(spark, long)) < 2 and time.monotonic() < wait_for:
        time.sleep(0.1)
    shown = jobs_in_ui(spark, long)
    first, *_, last = shown.values()
    assert first.startswith("rename_files, ")
    assert re.fullmatch(r"committed after \d+ s", last)
    queries = spark._jsparkSession.sharedState().statusStore().executionsList()
    query = queries.apply(queries.size() - 1)
    assert all(query.jobs().contains(number) for number in shown)
    assert jobs_in_ui(spark, quick) == {}
