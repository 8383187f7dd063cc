"""`df.write` with our jar on S3: Spark's tasks write through the real S3A client, we commit.

What Spark's own committer writes to local directories is what is expected.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
import ray
from click.testing import CliRunner

import ray_committer
from ray_committer.cli.main import main
from tests.integration.s3a import spark_driver as driver
from tests.integration.spark.test_attempts import daemon, wait_for_workers
from tests.servers.moto import MotoServer
from tests.servers.ports import free_port
from tests.servers.proxy import Answer, Fault, Harm, Proxy, Request, Send
from tests.servers.s3_bucket import Bucket
from tests.servers.s3_completions import is_completion

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("s3"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not pyspark.__version__.startswith("3."), reason="no index offers an S3A client for Spark 4"
    ),
]

TRACES = ("__magic", "_temporary")


@dataclass(frozen=True)
class Driver:
    """A process with a session of Spark."""

    pool: ProcessPoolExecutor

    def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function of `spark_driver` there."""
        return self.submit(function, *arguments, **named).result(600)

    def submit(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        return self.pool.submit(driver.call, function, *arguments, **named)

    def kill(self) -> None:
        """Kill it, and its JVM, as when its machine fails."""
        for process in [*(self.pool._processes or {}).values()]:
            assert process.pid is not None
            for child in children(process.pid):
                os.kill(child, signal.SIGKILL)
            os.kill(process.pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes below one, without those that have ended."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, found) for one in (child, *children(child))]


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The address of a master with two workers of one core."""
    port = free_port()
    master, ui = f"spark://127.0.0.1:{port}", ["--webui-port", "0"]
    with ExitStack() as stack:
        daemon(stack, directory, "master.Master", "--host", "127.0.0.1", "--port", str(port), *ui)
        for host in ("127.0.0.2", "127.0.0.3"):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / host)]
            daemon(stack, directory, "worker.Worker", "--host", host, *size, *ui, master)
        wait_for_workers(directory, 2)
        yield master


@contextmanager
def driving(endpoint: str, **how: Any) -> Iterator[Driver]:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        found = Driver(pool)
        found.run(driver.start, endpoint, **how)
        yield found


@pytest.fixture(scope="module")
def proxy(moto: MotoServer) -> Iterator[Proxy]:
    """moto, behind what can lose its answers."""
    proxy = Proxy(moto.url).start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="module")
def spark(moto: MotoServer, proxy: Proxy) -> Iterator[Driver]:
    with driving(moto.url, committing=proxy.url) as found:
        yield found


@pytest.fixture
def url(bucket: Bucket) -> str:
    return f"s3a://{bucket.name}/sub é/table"


def check_no_traces(bucket: Bucket) -> None:
    """Nothing but data is left."""
    assert bucket.uploads() == {}
    assert [name for name in bucket.names() if any(trace in name for trace in TRACES)] == []


def data(bucket: Bucket) -> list[str]:
    return [name for name in bucket.names() if "/part-" in name and "/__magic/" not in name]


def aborts(moto: MotoServer, bucket: Bucket) -> list[str]:
    """The uploads of data that were aborted so far."""
    asked = [one for one in moto.requests() if f'"DELETE /{bucket.name}/' in one]
    return [one for one in asked if "uploadId" in one and "/part-" in one]


def command(endpoint: str, *arguments: str) -> str:
    """Run ``ray-committer``; its output."""
    options = {"endpoint_url": endpoint, "key": "test", "secret": "test"}
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    result = CliRunner().invoke(main, [*arguments, *given])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("format_", "by"), driver.TABLES)
def test_each_mode_gives_what_sparks_own_committer_gives(
    spark: Driver, bucket: Bucket, url: str, tmp_path: Path, format_: str, by: str | None
):
    found = spark.run(driver.steps, url, format_, by)
    wanted = spark.run(driver.steps, f"file://{tmp_path}/table", format_, by, is_oracle=True)
    assert found == wanted
    assert len(found) == (4 if by else 3)
    assert len(data(bucket)) == len(wanted[-1][1])
    check_no_traces(bucket)


def test_a_file_of_several_parts_is_whole(spark: Driver, bucket: Bucket, url: str):
    sizes = spark.run(driver.large, url)
    assert [len(bucket.read(name)) for name in data(bucket)] == sizes
    assert max(sizes) > 11 << 20
    check_no_traces(bucket)


def test_a_failed_attempt_leaves_no_upload_and_its_task_is_there_once(
    spark: Driver, moto: MotoServer, bucket: Bucket, url: str, tmp_path: Path
):
    written = tmp_path / "written"
    writing = spark.submit(driver.failing, url, attempts=1, until=str(written))
    try:
        wait_until(lambda: sum("/part-00001" in str(one) for one in bucket.uploads()) > 2, writing)
    except AssertionError as e:
        e.add_note(f"uploads: {sorted(bucket.uploads())}; last requests: {moto.requests()[-40:]}")
        raise
    finally:
        written.touch()
    writing.result(600)
    assert len(aborts(moto, bucket)) > 2
    assert spark.run(driver.rows_of, url) == list(range(300))
    check_no_traces(bucket)


def test_a_job_that_fails_shows_and_leaves_nothing(spark: Driver, bucket: Bucket, url: str):
    spark.run(driver.append, url, 0, 30)
    before = bucket.names()
    with pytest.raises(Exception, match="on purpose"):
        spark.run(driver.failing, url, attempts=9)
    assert bucket.names() == before
    check_no_traces(bucket)


def test_jobs_at_once_do_not_disturb_each_other(spark: Driver, bucket: Bucket, url: str, tmp_path: Path):
    """An append whose tasks have begun their files, while two others overwrite and append."""
    spark.run(driver.append, url, 0, 30)
    found = spark.run(driver.beside, url, str(tmp_path))
    assert found == [*range(100, 130), *range(200, 230), *range(300, 330)]
    check_no_traces(bucket)


@pytest.mark.parametrize("harm", [Harm.LOSE, Harm.FAIL])
def test_lost_answers_of_completions_lose_nothing(
    spark: Driver, proxy: Proxy, bucket: Bucket, url: str, harm: Harm
):
    with proxy.faulty(Fault(harm, is_completion, times=4)):
        spark.run(driver.append, url, 0, 90)
    assert spark.run(driver.rows_of, url) == list(range(90))
    check_no_traces(bucket)


def test_a_deferred_job_is_committed_by_the_command(
    spark: Driver, moto: MotoServer, bucket: Bucket, url: str
):
    spark.run(driver.append, url, 0, 30, commit="deferred")
    assert data(bucket) == []
    assert len(bucket.uploads()) == 3
    assert "committed" in command(moto.url, "commit", quoted(url))
    assert spark.run(driver.rows_of, url) == list(range(30))
    check_no_traces(bucket)


def quoted(url: str) -> str:
    return url.replace(" ", "%20")


def test_the_same_command_finishes_the_commit_of_a_killed_driver(
    moto: MotoServer, bucket: Bucket, url: str, spark: Driver
):
    """It is killed when it has completed five of twelve uploads."""
    completed: list[str] = []

    async def answer(request: Request, send: Send) -> Answer:
        if is_completion(request) and "/part-" in request.path:
            completed.append(request.path)
            if len(completed) > 5:
                return Answer(503)
        return await send(request)

    proxy = Proxy(moto.url, answer).start()
    try:
        with driving(moto.url, committing=proxy.url) as killed:
            writing = killed.submit(driver.partitioned, url, 0, 60)
            wait_until(lambda: len(completed) > 5, writing)
            killed.kill()
            with pytest.raises(BrokenProcessPool):
                writing.result(60)
    finally:
        proxy.stop()
    assert len(data(bucket)) == 5
    assert len(bucket.uploads()) == 7
    assert "committed" in command(moto.url, "commit", quoted(url))
    assert spark.run(driver.rows_of, url) == list(range(60))
    check_no_traces(bucket)


def test_what_a_killed_executor_was_writing_is_aborted(
    moto: MotoServer, bucket: Bucket, url: str, spark: Driver, tmp_path: Path
):
    """One of two executors is killed while a task of it has closed one file and begun another."""
    with ExitStack() as stack:
        master = stack.enter_context(standalone(tmp_path))
        cluster = stack.enter_context(driving(moto.url, master=master))
        go_on = tmp_path / "go on"
        writing = cluster.submit(driver.killing, url, str(tmp_path / "killed"), str(go_on))
        wait_until(lambda: sum("/part-00001-" in one for one in bucket.uploads()) >= 4, writing)
        go_on.touch()
        writing.result(600)
    assert (tmp_path / "killed").exists()
    assert len(aborts(moto, bucket)) > 2
    assert spark.run(driver.rows_of, url) == list(range(300))
    check_no_traces(bucket)


def test_a_killed_driver_whose_tasks_wrote_is_aborted_by_the_command(
    moto: MotoServer, bucket: Bucket, url: str
):
    with driving(moto.url) as killed:
        writing = killed.submit(driver.failing, url, attempts=9, until="/never")
        wait_until(lambda: len(bucket.uploads()) > 2, writing)
        killed.kill()
        with pytest.raises(BrokenProcessPool):
            writing.result(60)
    assert len(ray_committer.list_jobs(quoted(url), storage_options=options(moto.url))) == 1
    command(moto.url, "abort", quoted(url))
    assert bucket.names() == []
    check_no_traces(bucket)


def options(endpoint: str) -> dict[str, str]:
    return {"endpoint_url": endpoint, "key": "test", "secret": "test"}


def wait_until(holds: Callable[[], bool], writing: Any) -> None:
    deadline = time.monotonic() + 200
    while not holds():
        assert time.monotonic() < deadline
        assert not writing.done(), writing.result()
        time.sleep(0.05)


def test_a_client_without_magic_is_refused_before_anything_is_written(
    spark: Driver, bucket: Bucket, url: str
):
    with pytest.raises(Exception, match="does not write pending uploads there") as caught:
        spark.run(driver.append_without_magic, url, bucket.name)
    assert "spark.hadoop.fs.s3a.committer.magic.enabled=true" in str(caught.value)
    assert bucket.names() == []
    check_no_traces(bucket)


def test_a_server_that_ignores_conditions_is_refused(
    spark: Driver, proxy: Proxy, moto: MotoServer, bucket: Bucket, url: str
):
    async def answer(request: Request, send: Send) -> Answer:
        names = ("if-none-match", "if-match")
        kept = {name: value for name, value in request.headers.items() if name.lower() not in names}
        return await send(replace(request, headers=kept))

    careless = Proxy(moto.url, answer).start()
    try:
        spark.run(driver.commit_at, careless.url)
        with pytest.raises(Exception, match="although a condition of the request does not hold"):
            spark.run(driver.append, url, 0, 30)
    finally:
        spark.run(driver.commit_at, proxy.url)
        careless.stop()
    assert data(bucket) == []


def test_a_location_outside_of_the_table_is_refused(spark: Driver, bucket: Bucket, url: str):
    with pytest.raises(Exception, match="is the location of a partition outside of its table"):
        spark.run(driver.to_own_location, url, f"s3a://{bucket.name}/elsewhere")
    assert data(bucket) == []
    check_no_traces(bucket)


@pytest.mark.usefixtures("ray_cluster")
def test_workers_on_ray_commit(moto: MotoServer, bucket: Bucket, url: str):
    address = ray.get_runtime_context().gcs_address
    with driving(moto.url, executor="ray", address=address) as on_ray:
        on_ray.run(driver.partitioned, url, 0, 60)
        assert on_ray.run(driver.rows_of, url) == list(range(60))
    assert len(data(bucket)) == 12
    check_no_traces(bucket)
