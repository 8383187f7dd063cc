"""Several attempts of a task on a cluster of two hosts: what is committed is one of each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.cluster_job import SLOW_SECONDS
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import environment
from tests.integration.spark.metered import compiled
from tests.servers.ports import free_port

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(300),
]

FILES = 16
"""Of eight tasks in two partitions."""
HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Written:
    """A destination, and what the driver told of its job."""

    dest: Path
    told: dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone master and two workers of two cores, each on an address of its own."""
    directory = tmp_path_factory.mktemp("cluster")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        ui = ["--webui-port", "0"]
        daemon(stack, directory, "master.Master", "--host", "127.0.0.1", "--port", str(port), *ui)
        for host in ("127.0.0.2", "127.0.0.3"):
            size = ["--cores", "2", "--memory", "2g", "--work-dir", str(directory / host)]
            daemon(stack, directory, "worker.Worker", "--host", host, *size, *ui, master)
        wait_for_workers(directory, 2)
        yield master


@pytest.fixture(scope="module")
def found(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, Written]:
    """What the two jobs of `cluster_job.py` left, in one application that speculates."""
    directory = tmp_path_factory.mktemp("attempts")
    slow, shuffled, marker = (directory / name for name in ("slow", "shuffled", "halted"))
    classes = compiled()
    settings = (
        "spark.speculation=true",
        "spark.speculation.interval=200ms",
        "spark.speculation.multiplier=2",
        "spark.speculation.quantile=0.5",
        f"spark.driver.extraClassPath={classes}",
        f"spark.executor.extraClassPath={classes}",
        "spark.hadoop.fs.file.impl=HaltingFileSystem",
        f"spark.hadoop.halting.marker={marker}",
        f"spark.hadoop.halting.slow={slow}",
        f"spark.hadoop.halting.seconds={SLOW_SECONDS}",
    )
    script = str(Path(__file__).with_name("cluster_job.py"))
    result = subprocess.run(
        [sys.executable, script, cluster, str(slow), str(shuffled), str(marker), *settings],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert marker.exists(), "no executor halted"
    first, second = (Written(dest, line) for dest, line in zip((slow, shuffled), lines, strict=True))
    return first, second


def test_a_speculative_attempt_wins_and_the_slow_one_leaves_nothing(found: tuple[Written, Written]):
    slow, _ = found
    assert slow.told["seconds"] < SLOW_SECONDS, "nobody speculated"
    assert {path.name for path in slow.dest.parent.glob("slow-attempt-*")} == {
        "slow-attempt-0",
        "slow-attempt-1",
    }
    assert_exact(slow)


def test_spark_39195_an_attempt_whose_executor_is_gone_after_its_task_commit_counts_once(
    found: tuple[Written, Written],
):
    """Also SPARK-48292: the executor is gone between its manifest and its answer."""
    _, shuffled = found
    assert_exact(shuffled)


def test_partitions_go_whole_without_what_other_attempts_have_left(found: tuple[Written, Written]):
    """An executor that halts takes nothing away, and an attempt that does not end has begun a file."""
    for written in found:
        assert written.told["staged"] > FILES
        assert_exact(written)


def test_spark_26682_a_stage_that_ran_twice_counts_once(found: tuple[Written, Written]):
    """Also SPARK-24552: both attempts of a stage had task attempts of the same numbers.

    With the executor that is gone, the output of the first stage is gone, too.
    """
    _, shuffled = found
    assert shuffled.told["stages_begun_again"], "no stage ran again"
    assert_exact(shuffled)


def assert_exact(written: Written) -> None:
    assert (written.told["rows"], written.told["distinct"]) == (80, 80)
    assert len(data_files(written.dest)) == FILES
    assert (written.told["whole"], written.told["by_file"]) == (2, {})
    assert (written.dest / "_SUCCESS").is_file()
    assert not (written.dest / "_temporary").exists()


def daemon(stack: ExitStack, directory: Path, name: str, *arguments: str) -> None:
    """Start a part of the cluster, which ends with the stack."""
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    log = stack.enter_context((directory / f"{name}.log").open("ab"))
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=log,
        env=environment(SPARK_HOME=str(HOME), SPARK_DAEMON_MEMORY="256m"),
    )
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)


def wait_for_workers(directory: Path, number: int) -> None:
    log = directory / "master.Master.log"
    deadline = time.monotonic() + 90
    while log.read_text().count("Registering worker") < number:
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
