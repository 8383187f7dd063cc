"""Spark drivers without Python, whose jobs are committed on a Ray cluster, through its REST API."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from pyspark.sql import DataFrame

import ray_committer
from ray_committer.cli.main import main
from ray_committer.spark.session import _bridge
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import (
    COMMAND,
    SparkSql,
    check_statements,
    environment,
    kill_when_files_appear,
    request_of_many_tasks,
    submit,
    wait_until_committed,
)
from tests.integration.spark.test_spark_writes import fail_task
from tests.servers.ports import free_port, free_ports
from tests.servers.proxy import Fault, Harm, Proxy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(400),
]

TOKEN = "0123456789abcdef-of-the-tests"
PORTS = (
    "port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "node-manager-port",
    "object-manager-port",
    "ray-client-server-port",
)
SLOW = {"max_requests_per_second": "20"}
# A command whose commits wait for a file.
HELD = """#!/bin/sh
case "$*" in *"spark-job commit"*) while [ ! -e {begin} ]; do sleep 0.1; done;; esac
exec {command} "$@"
"""
# A command whose commits are cancelled when the first file is in place.
CANCELLED = """#!/bin/sh
case "$*" in *"spark-job commit"*)
    {command} "$@" & commit=$!
    while ! find {dest} -name _temporary -prune -o -name 'part-*' -print | grep -q .; do sleep 0.05; done
    kill -TERM $commit
    wait $commit
    exit $?;;
esac
exec {command} "$@"
"""


@pytest.fixture(scope="module")
def dashboard() -> Iterator[str]:
    """The address of the dashboard of a Ray cluster of its own, which wants `TOKEN`."""
    pytest.importorskip("aiohttp_cors", reason="needs ray[default]")
    port, *ports = free_ports(1 + len(PORTS))
    home = tempfile.mkdtemp(prefix="rayjobs", dir="/tmp")  # short: sockets are in it
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus=2"]
    command += [f"--{name}={one}" for name, one in zip(PORTS, ports, strict=True)]
    command += [f"--dashboard-port={port}", f"--temp-dir={home}", "--node-ip-address=127.0.0.1"]
    command += ["--disable-usage-stats"]
    variables = environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)
    with Path(home, "out").open("w") as output:
        ray = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for_jobs_api(address, ray, Path(home, "out"))
        yield address
    finally:
        ray.terminate()
        ray.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def wait_for_jobs_api(address: str, ray: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and ray.poll() is None:
        try:
            get(address, "/api/jobs/")
        except OSError:
            time.sleep(1)
        else:
            return
    raise RuntimeError(f"Ray did not start: {output.read_text()}")


def get(address: str, path: str) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with urllib.request.urlopen(
        urllib.request.Request(address + path, headers=headers), timeout=20
    ) as answer:
        return json.load(answer)


@pytest.fixture
def proxy(dashboard: str) -> Iterator[Proxy]:
    proxy = Proxy(dashboard).start()
    yield proxy
    proxy.stop()


def settings(address: str, **more: str) -> dict[str, str]:
    return {"jobs.address": address, "jobs.token": TOKEN, "command": COMMAND, **more}


def spark_settings(address: str, **more: str) -> dict[str, str]:
    return {f"spark.ray_committer.{name}": value for name, value in settings(address, **more).items()}


def jobs(address: str, dest: Path, action: str) -> list[dict[str, Any]]:
    """The Ray jobs that committed, or set up, jobs at a destination; the commit's request is there."""
    return [
        job
        for job in get(address, "/api/jobs/")
        if job["submission_id"].startswith(f"ray-committer-{action}-") and str(dest) in job["entrypoint"]
    ]


def submitted(proxy: Proxy) -> list[str]:
    """What was asked of the cluster, in order."""
    bodies = (json.loads(one.body) for one in proxy.requests if one.method == "POST")
    return [body["submission_id"].split("-")[2] for body in bodies]


@pytest.mark.one_spark
@pytest.mark.wide
def test_spark_sql_commits_on_the_cluster(dashboard: str, tmp_path: Path):
    sql = SparkSql(tmp_path)
    log = check_statements(sql, spark_settings(dashboard))
    assert "rename_files" in log
    assert "is NOT committed" in log
    assert TOKEN not in log
    commits = jobs(dashboard, tmp_path, "commit")
    assert sorted(job["status"] for job in commits) == ["FAILED", *["SUCCEEDED"] * 3]


@pytest.mark.wide
def test_a_jvm_application_commits_through_https(dashboard: str, tmp_path: Path, dest: Path):
    """The token is in a file, and the cluster makes an environment for the commit."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    (tmp_path / "token").write_text(TOKEN)
    runtime_env = {"env_vars": {"RAY_COMMITTER_TEST": "1"}}
    with_token = environment(RAY_AUTH_TOKEN_PATH=str(tmp_path / "token"))
    proxy = Proxy(dashboard, tls=tls).start()
    try:
        result = submit(
            tmp_path,
            {
                "spark.ray_committer.jobs.address": proxy.url,
                "spark.ray_committer.jobs.runtime_env": json.dumps(runtime_env),
                "spark.ray_committer.command": COMMAND,
                "spark.driver.extraJavaOptions": trusting(authority, tmp_path),
            },
            str(dest),
            variables=with_token,
        )
    finally:
        proxy.stop()
    assert result.returncode == 0, result.stderr[-3000:]
    assert b'"committer": "ray_committer"' in (dest / "_SUCCESS").read_bytes()
    (commit,) = jobs(dashboard, dest, "commit")
    assert commit["runtime_env"]["env_vars"]["RAY_COMMITTER_TEST"] == "1"
    assert TOKEN not in result.stdout + result.stderr


def trusting(authority: trustme.CA, directory: Path) -> str:
    """The options of a JVM that trusts `authority` alone."""
    authority.cert_pem.write_to_path(directory / "ca.pem")
    store, password = directory / "trust.p12", "changeit"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-storetype", "PKCS12"]
    command += ["-file", str(directory / "ca.pem"), "-keystore", str(store), "-storepass", password]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword={password}"


@pytest.mark.one_spark
def test_secrets_stay_in_the_driver(spark, proxy: Proxy, configure, rows: DataFrame, dest: Path):
    configure(settings(proxy.url, commit="deferred", threads="3"))
    key = "fs.azure.account.key.other.dfs.core.windows.net"
    spark.conf.set(key, "s3cr3t")
    try:
        rows.write.parquet(str(dest))
    finally:
        spark.conf.unset(key)
    setup, _ = (json.loads(one.body) for one in proxy.requests if one.method == "POST")
    inline = gzip.decompress(base64.b64decode(setup["entrypoint"].split()[-1]))
    (file,) = dest.glob("_temporary/*/00/state/commit-request.json")
    for request in (inline.decode(), file.read_text()):
        assert '"spark.ray_committer.threads":"3"' in request
        assert "s3cr3t" not in request
        assert TOKEN not in request
    assert all(one.headers["Authorization"] == f"Bearer {TOKEN}" for one in proxy.requests)
    assert all(TOKEN.encode() not in one.body for one in proxy.requests)


@pytest.mark.one_spark
@pytest.mark.parametrize(
    "harm", [Harm.LOSE, *(pytest.param(one, marks=pytest.mark.wide) for one in (Harm.FAIL, Harm.CUT))]
)
def test_a_lost_answer_to_a_submission_makes_no_second_job(
    spark, proxy: Proxy, configure, rows: DataFrame, dest: Path, harm: Harm
):
    configure(settings(proxy.url))
    with proxy.faulty(
        Fault(harm, lambda request: request.method == "POST", times=1),
        Fault(Harm.CUT, lambda request: request.method == "GET", probability=0.3),
    ):
        rows.write.parquet(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600
    assert len(jobs(proxy.upstream, dest, "commit")) == 1


@pytest.mark.one_spark
def test_a_wrong_token_fails_the_write_before_any_task(
    dashboard: str, configure, rows: DataFrame, dest: Path
):
    configure(settings(dashboard), **{"jobs.token": "another-secret"})
    with pytest.raises(Exception, match=r"refused the token \(40[13]\); set .*jobs\.token") as raised:
        rows.write.parquet(str(dest))
    assert "another-secret" not in str(raised.value)
    assert data_files(dest) == set()


@pytest.mark.one_spark
def test_an_address_where_nobody_listens_is_named(configure, rows: DataFrame, dest: Path):
    address = f"http://127.0.0.1:{free_port()}"
    configure(settings(address), **{"jobs.unreachable_seconds": "2"})
    with pytest.raises(Exception, match=f"{address}: the Ray cluster does not answer"):
        rows.write.parquet(str(dest))
    assert data_files(dest) == set()


@pytest.mark.one_spark
def test_an_address_that_is_none_is_refused(configure, rows: DataFrame, dest: Path):
    configure(settings("head:8265"))
    with pytest.raises(Exception, match="is not the address of a Ray dashboard"):
        rows.write.parquet(str(dest))


@pytest.mark.one_spark
def test_a_command_that_the_cluster_has_not_is_named(
    dashboard: str, configure, rows: DataFrame, dest: Path
):
    configure(settings(dashboard), command="/nowhere/ray-committer")
    with pytest.raises(Exception, match=r"(?s)gave no answer; .*command.*/nowhere/ray-committer"):
        rows.write.parquet(str(dest))


@pytest.mark.one_spark
def test_a_cluster_out_of_reach_in_the_middle_loses_nothing(
    spark, proxy: Proxy, configure, rows: DataFrame, dest: Path, tmp_path: Path
):
    """The commit begins when the driver has given up, so whatever the driver deletes is missed."""
    begin, command = tmp_path / "begin", tmp_path / "held"
    command.write_text(HELD.format(begin=begin, command=COMMAND))
    command.chmod(0o755)
    configure(settings(proxy.url), command=str(command), **{"jobs.unreachable_seconds": "2"})
    is_commit = Fault(Harm.CUT, lambda request: "ray-committer-commit-" in request.path)
    with proxy.faulty(is_commit), pytest.raises(Exception, match="may still go on, so everything"):
        rows.write.partitionBy("text").parquet(str(dest))
    assert data_files(dest) == set()
    assert [job.state for job in ray_committer.list_jobs(str(dest))] == ["running"]
    assert not any(b"spark-job abort" in request.body for request in proxy.requests)
    begin.touch()
    wait_until_committed(dest)
    assert spark.read.parquet(str(dest)).count() == 600


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_failed_write_is_aborted_on_the_cluster(
    proxy: Proxy, configure, rows: DataFrame, dest: Path, tmp_path: Path
):
    configure(settings(proxy.url))
    fail = fail_task(str(tmp_path / "ran"), times=9)
    with pytest.raises(Exception, match="simulated failure of a task"):
        rows.select(fail("id").alias("id")).write.parquet(str(dest))
    assert ray_committer.list_jobs(str(dest)) == []
    assert submitted(proxy) == ["setup", "abort"]


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_commit_that_stops_on_the_cluster_is_kept(
    spark, proxy: Proxy, configure, rows: DataFrame, dest: Path, tmp_path: Path
):
    """It is cancelled in the middle, and ends with an error, so that Spark asks for an abort."""
    command = tmp_path / "cancelled"
    command.write_text(CANCELLED.format(command=COMMAND, dest=dest))
    command.chmod(0o755)
    configure(settings(proxy.url, max_requests_per_second="4"), command=str(command))
    with pytest.raises(Exception, match="cancelled"):
        rows.write.partitionBy("text").parquet(str(dest))
    assert submitted(proxy) == ["setup", "commit", "abort"]
    (job,) = ray_committer.list_jobs(str(dest))
    assert job.state == "recorded"
    ray_committer.commit_job(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600


@pytest.mark.wide
@pytest.mark.one_spark
def test_a_commit_outlives_its_driver(dashboard: str, tmp_path: Path):
    sql = SparkSql(tmp_path)
    dest = tmp_path / "spark-warehouse" / "t"
    statement = "CREATE TABLE t USING csv PARTITIONED BY (p) AS SELECT id, id % 20 AS p FROM range(40)"
    kill_when_files_appear(sql.start(statement, spark_settings(dashboard, **SLOW)), dest)
    assert (dest / "_temporary").exists()
    wait_until_committed(dest)
    assert len(data_files(dest)) == 40
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0, result.output
    assert "was already committed; nothing was left to do" in " ".join(result.output.split())


@pytest.mark.wide
@pytest.mark.one_spark
@pytest.mark.parametrize("tasks", [6_000, pytest.param(20_000, marks=pytest.mark.wide)])
def test_a_request_larger_than_a_mebibyte_reaches_the_cluster(
    spark, dashboard: str, configure, dest: Path, tasks: int
):
    configure(settings(dashboard, threads="4"))
    request = json.dumps(request_of_many_tasks(dest, tasks))
    assert len(request) > 1 << 20
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    assert _bridge(spark).handlerFor(hadoop).commitJob(request).strip() == "{}"
    assert b'"jobId": "many"' in (dest / "_SUCCESS").read_bytes()
    assert not (dest / "_temporary").exists()


@pytest.mark.one_spark
def test_an_overwrite_of_too_many_directories_is_refused(spark, dashboard: str, configure, dest: Path):
    configure(settings(dashboard))
    request = request_of_many_tasks(dest, 1) | {
        "replacePaths": [os.urandom(40).hex() for _ in range(2000)]
    }
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    with pytest.raises(Exception, match="replaces more directories than a Ray job's command"):
        _bridge(spark).handlerFor(hadoop).setupJob(json.dumps(request))
