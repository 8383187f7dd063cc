"""Spark drivers without Python: ``bin/spark-sql``, and the `ray-committer` command that it finds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

import ray_committer
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path
from tests.integration.spark.conftest import data_files
from tests.jar_requests import request, tasks_of

ROOT = Path(__file__).parents[3]
COMMAND = f"{sys.executable} -m ray_committer.cli"
LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.ours.name = io.raycommitter
logger.ours.level = info
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c{{1}}: %m%n%ex
"""


def environment(**more: str) -> dict[str, str]:
    """This process's environment, in which every Python finds this source tree."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **more}


def path_with_command(directory: Path) -> str:
    """A PATH on which `ray-committer` is this source tree's."""
    directory.mkdir(exist_ok=True)
    script = directory / "ray-committer"
    script.write_text(f'#!/bin/sh\nexec {COMMAND} "$@"\n')
    script.chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


class SparkSql:
    """Runs ``bin/spark-sql`` in `home`, where its catalog and its log are, too.

    It has our jar and protocol, or the settings of a ``spark-defaults.conf`` instead.
    """

    def __init__(
        self, home: Path, *, defaults: str | None = None, master: str = "local[2]", **variables: str
    ) -> None:
        self.home = home
        self.log = home / "spark.log"
        self.warehouse = home / "spark-warehouse"
        if defaults is not None:
            (home / "spark-defaults.conf").write_text(defaults)
            variables["SPARK_CONF_DIR"] = str(home)
        self._settings = {PROTOCOL_KEY: PROTOCOL_CLASS} if defaults is None else {}
        self._environment = environment(SPARK_HOME=str(Path(pyspark.__file__).parent), **variables)
        logging = home / "log4j2.properties"
        logging.write_text(LOGGING.format(file=self.log))
        self._options = [
            f"--master={master}",
            *([f"--jars={jar_path()}"] if defaults is None else []),
            f"--driver-java-options=-Dlog4j2.configurationFile=file:{logging}",
        ]

    def start(self, sql: str, conf: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start the statements of `sql`; what is printed goes to pipes."""
        settings = {"spark.ui.enabled": "false", **self._settings, **conf}
        pairs = [f"--conf={key}={value}" for key, value in settings.items()]
        program = Path(pyspark.__file__).parent / "bin" / "spark-sql"
        return subprocess.Popen(
            [str(program), *self._options, *pairs, "-e", sql],
            cwd=self.home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, sql: str, conf: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        with self.start(sql, conf) as process:
            output, errors = process.communicate(timeout=250)
        return subprocess.CompletedProcess(sql, process.returncode, output, errors)


STATEMENTS = """
CREATE TABLE t USING parquet PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(30);
SELECT 'ctas', count(*), sum(id) FROM t;
INSERT OVERWRITE t PARTITION (p = 1) SELECT id FROM range(100, 105);
SELECT 'static', count(*), count_if(p = 1) FROM t;
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE t SELECT id, 2 FROM range(7);
SELECT 'dynamic', count(*), count_if(p = 2) FROM t;
CREATE TABLE u (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p) LOCATION '{blocked}';
INSERT INTO u SELECT id, 1 FROM range(4);
SELECT 'not reached';
"""
"""Three writes that are committed, and one that cannot be: a file is where its partition must go."""


def check_statements(sql: SparkSql) -> str:
    """Run `STATEMENTS` and check what they print; returns what was logged."""
    blocked = sql.home / "blocked"
    blocked.mkdir()
    (blocked / "p=1").write_text("in the way")
    result = sql.run(STATEMENTS.format(blocked=blocked), {})
    assert "ctas\t30\t435" in result.stdout, result.stderr
    assert "static\t25\t5" in result.stdout
    assert "dynamic\t22\t7" in result.stdout
    assert result.returncode != 0
    assert "not reached" not in result.stdout
    failure = result.stderr + result.stdout
    assert f"{blocked}/p=1" in failure
    assert "exit code" in failure
    assert (blocked / "p=1").read_text() == "in the way"
    assert b'"committer": "ray_committer"' in (sql.warehouse / "t" / "_SUCCESS").read_bytes()
    assert not (sql.warehouse / "t" / "_temporary").exists()
    return sql.log.read_text()


def request_of_many_tasks(dest: Path, tasks: int) -> str:
    """What the jar asks for at the end of a job of many tasks without output, whose manifests exist.

    The first of them is written by a task attempt, the others are like it.
    """
    ray_committer.setup_job(str(dest), "job_1")
    with ray_committer.task_attempt(str(dest), "job_1", 0):
        pass
    (first,) = (dest / "_temporary/job_1/00/manifests").iterdir()
    for task in range(1, tasks):
        number = f"_m_{task:06d}"
        path = first.with_name(first.name.replace("_m_000000", number))
        path.write_text(first.read_text().replace("_m_000000", number))
    return request(dest, tasks=tasks_of(dest))


def kill_when_files_appear(driver: subprocess.Popen[str], dest: Path) -> None:
    """Kill a driver, and nothing else, when the first file of its commit is in place."""
    with driver:
        deadline = time.monotonic() + 200
        while not data_files(dest):
            assert time.monotonic() < deadline
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.05)
        driver.kill()


def wait_until_committed(dest: Path) -> None:
    deadline = time.monotonic() + 100
    while not (dest / "_SUCCESS").exists() or ray_committer.list_jobs(str(dest)):
        assert time.monotonic() < deadline
        time.sleep(0.5)
