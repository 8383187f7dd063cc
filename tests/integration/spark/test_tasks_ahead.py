"""Committed tasks that the driver passes on while others run, and what is left for the commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from ray_committer.spark import install, uninstall
from ray_committer.spark.session import offer
from ray_committer.testing import StoreCall
from tests.integration.spark.conftest import data_files
from tests.opening import moves_a_file, opening

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@dataclass
class Recorder:
    """A handler that notes what tasks it is asked to load ahead, and to commit."""

    handler: Any
    ahead: Path
    answer: str = "{}"
    loaded: list[dict[str, Any]] = field(default_factory=list)
    committed: list[dict[str, Any]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handler, name)

    def loadTasks(self, request: str) -> str:  # noqa: N802 - the name in Java
        assert self.handler._settings.configuration(json.loads(request)["jobId"]).settings
        self.loaded += json.loads(request)["tasks"]
        self.ahead.touch()
        return self.answer

    def commitJob(self, request: str) -> str:  # noqa: N802 - the name in Java
        self.committed += json.loads(request)["tasks"]
        return str(self.handler.commitJob(request))


@pytest.fixture
def recorder(spark: SparkSession, tmp_path: Path) -> Iterator[Recorder]:
    installation = install(spark)
    found = Recorder(installation.handler, tmp_path / "ahead")
    handler: Any = found
    offer(spark, installation.token, handler)
    yield found
    uninstall(spark)


def write(spark: SparkSession, dest: Path, event: Path | None, *, files: int = 1) -> None:
    """Three tasks of `files` files each; the last one waits for an event, if one is given."""
    waits_for = str(event) if event else None

    @udf("long")
    def wait_if_last(number):
        while waits_for is not None and number >= 2 * files and not Path(waits_for).exists():
            time.sleep(0.02)
        return number

    rows = spark.range(0, 3 * files, numPartitions=3).select(wait_if_last("id").alias("id"))
    rows.selectExpr("id", f"id % {files} AS p").write.partitionBy("p").csv(str(dest))
    assert len(data_files(dest)) == 3 * files


def without_text(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tasks = [{key: value for key, value in task.items() if key != "text"} for task in tasks]
    return sorted(tasks, key=lambda task: str(task["manifest"]))


def texts(tasks: list[dict[str, Any]]) -> dict[str, str]:
    return {task["manifest"]: task["text"] for task in tasks if "text" in task}


def test_tasks_are_passed_on_with_their_manifests_while_others_run(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
):
    write(spark, tmp_path / "t", recorder.ahead)
    sent, left = texts(recorder.loaded), texts(recorder.committed)
    assert len(sent) == len(recorder.loaded) > 0
    assert sent.keys().isdisjoint(left)
    assert len(sent) + len(left) == len(recorder.committed) == 3
    every = {task["manifest"]: task for task in without_text(recorder.committed)}
    assert all(task in every.values() for task in without_text(recorder.loaded))
    for name, text in (sent | left).items():
        assert sha256(text.encode()).hexdigest() == every[name]["sha256"]
        assert len(text.encode()) == every[name]["size"] <= 2048
        assert len(json.loads(text)["files"]) == every[name]["files"] == 1


def test_what_could_not_be_passed_on_is_in_the_commit(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
):
    recorder.answer = '{"error": "not now"}'
    write(spark, tmp_path / "t", recorder.ahead)
    assert len(texts(recorder.loaded)) == len(recorder.loaded) > 0
    assert len(texts(recorder.committed)) == 3


def test_a_task_with_many_files_does_not_send_its_manifest(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
):
    write(spark, tmp_path / "t", recorder.ahead, files=17)
    assert len(recorder.loaded) > 0
    assert (texts(recorder.loaded), texts(recorder.committed)) == ({}, {})
    assert [task["files"] for task in recorder.committed] == [17, 17, 17]


def test_manifests_take_a_quarter_of_what_the_results_of_tasks_may_have(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
):
    driver = spark.sparkContext._jsc.sc().conf()
    driver.set("spark.driver.maxResultSize", str(2 * 4 * 2048))
    try:
        write(spark, tmp_path / "t", None)
    finally:
        driver.remove("spark.driver.maxResultSize")
    sent = texts(recorder.loaded) | texts(recorder.committed)
    numbers = [name.partition("-")[0][-6:] for name in sent]
    assert sorted(numbers) == ["000000", "000001"]


def test_a_commit_reads_no_manifest_that_came_with_its_task(spark: SparkSession, tmp_path: Path):
    install(spark)
    requests: list[StoreCall] = []
    try:
        with opening(before=requests.append):
            write(spark, tmp_path / "t", None)
    finally:
        uninstall(spark)
    reads = [call.paths[0] for call in requests if call.operation == "read"]
    assert not [path for path in reads if "/manifests/" in path or "/frozen/" in path]
    assert [call for call in requests if moves_a_file(call)]
