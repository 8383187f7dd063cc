"""Several attempts of a task on a cluster of two hosts: what is committed is one of each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import environment
from tests.integration.spark.metered import compiled
from tests.servers.ports import free_port

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(300),
]

HOME = Path(pyspark.__file__).parent


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


def test_a_speculative_attempt_wins_and_the_slow_one_leaves_nothing(cluster: str, dest: Path):
    found = run(
        cluster,
        dest,
        "slow",
        "spark.speculation=true",
        "spark.speculation.interval=200ms",
        "spark.speculation.multiplier=2",
        "spark.speculation.quantile=0.5",
    )
    assert found["seconds"] < 50, "nobody speculated"
    assert {path.name for path in dest.parent.glob(f"{dest.name}-attempt-*")} == {
        f"{dest.name}-attempt-0",
        f"{dest.name}-attempt-1",
    }
    assert_exact(dest, found)


def test_two_attempts_that_both_saved_a_manifest_and_a_stage_that_ran_twice_count_once(
    cluster: str, dest: Path, tmp_path: Path
):
    """The executor is gone between its manifest and its answer, and with it the first stage's output."""
    classes = compiled(tmp_path)
    marker = tmp_path / "halted"
    found = run(
        cluster,
        dest,
        "shuffled",
        f"spark.driver.extraClassPath={classes}",
        f"spark.executor.extraClassPath={classes}",
        "spark.hadoop.fs.file.impl=HaltingFileSystem",
        f"spark.hadoop.halting.marker={marker}",
    )
    assert marker.exists(), "no executor halted"
    assert any(found["first_stages"]), "no stage ran again"
    assert_exact(dest, found)


def assert_exact(dest: Path, found: dict[str, Any]) -> None:
    assert (found["rows"], found["distinct"]) == (80, 80)
    assert len(data_files(dest)) == 16
    assert (dest / "_SUCCESS").is_file()
    assert not (dest / "_temporary").exists()


def run(master: str, dest: Path, job: str, *settings: str) -> dict[str, Any]:
    script = str(Path(__file__).with_name("cluster_job.py"))
    command = [sys.executable, script, master, str(dest), job, *settings]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


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
