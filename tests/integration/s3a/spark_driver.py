"""A driver of Spark whose tasks write through the real S3A client, in a process of its own.

The functions below `start` run there, so that a JVM of another test does not matter. Spark's own
committer writes to local directories: what that gives is what is expected of ours on S3.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from ray_committer.spark import install, spark_conf
from tests.servers.s3a import install as s3a_jars
from tests.servers.s3a import settings

TEXT = "element_at(array('plain', 'a b%/é日本', '😀\"''q', 'x:y=z'), int(id % 4) + 1)"
ROWS = 60
TABLES = [
    ("parquet", None),
    ("parquet", "text"),
    *((format_, "p") for format_ in ("parquet", "orc", "csv", "json", "text")),
    ("orc", None),
]
"""Formats, and the column that partitions them."""

_driver: dict[str, SparkSession] = {}


def start(
    endpoint: str,
    *,
    committing: str | None = None,
    given: Mapping[str, str] | None = None,
    master: str = "local[6,3]",
    address: str | None = None,
    executor: str = "threads",
) -> None:
    """Make the session of this process, which has the Ray cluster at `address`.

    Tasks write to the server at `endpoint`. The job is committed there, or by way of `committing`.
    """
    if address:
        os.environ["RAY_ADDRESS"] = address
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    hadoop = {f"spark.hadoop.{name}": value for name, value in session_settings(endpoint).items()}
    classes = dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), s3a_jars())
    for name, value in {**spark_conf(store="s3"), **hadoop, **classes, **(given or {})}.items():
        builder = builder.config(name, value)
    spark = _driver["spark"] = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    commit_at(committing, executor)


def session_settings(endpoint: str) -> dict[str, str]:
    """Those of the S3A client alone: its committers are not asked for."""
    own = {name: value for name, value in settings(endpoint).items() if "committer" not in name}
    return {**own, "fs.s3a.multipart.size": "5M"}


def commit_at(endpoint: str | None, executor: Any = "threads") -> None:
    """Commit as the settings of the S3A client say or, if one is given, at another address."""
    options = {"endpoint_url": endpoint} if endpoint else {}
    install(session(), executor=executor, storage_options=options)


def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function; its error as one that can be sent to another process."""
    try:
        return function(*arguments, **named)
    except Exception as e:  # noqa: BLE001 - every error is sent
        raise RuntimeError(str(e)) from None


def session() -> SparkSession:
    return _driver["spark"]


def frame(low: int, high: int, partitions: int = 4) -> DataFrame:
    """Rows with every kind of character, in three tasks."""
    rows = session().range(low, high, 1, 3)
    return rows.selectExpr("id", f"id % {partitions} AS p", f"{TEXT} AS text")


def writer(rows: DataFrame, format_: str, by: str | None) -> DataFrameWriter:
    """A writer of `rows`, partitioned by a column if one is named; a text file has one column."""
    if format_ == "text":
        columns = ["concat(id, ' ', text) AS value", *([by] if by else [])]
        rows = rows.selectExpr(*columns)
    found = rows.write.format(format_)
    return found.partitionBy(by) if by else found


def steps(url: str, format_: str, by: str | None, *, is_oracle: bool = False) -> list[Any]:
    """Create, append, overwrite and, with partitions, replace two of them; what is there after each."""
    session().conf.set("spark.ray_committer.commit", "spark" if is_oracle else "ray")
    found = []
    writer(frame(0, ROWS), format_, by).save(url)
    found.append(content(url, format_))
    writer(frame(ROWS, 2 * ROWS), format_, by).mode("append").save(url)
    found.append(content(url, format_))
    writer(frame(0, ROWS), format_, by).mode("overwrite").save(url)
    found.append(content(url, format_))
    if by:
        some = writer(frame(1000, 1000 + ROWS, 2), format_, by).mode("overwrite")
        some.option("partitionOverwriteMode", "dynamic").save(url)
        found.append(content(url, format_))
    session().conf.set("spark.ray_committer.commit", "ray")
    return found


def content(url: str, format_: str) -> tuple[list[str], list[str]]:
    """The rows of a table, and the directories of its files."""
    rows = session().read.format(format_).load(url)
    names = [row[0] for row in rows.selectExpr("input_file_name()").distinct().collect()]
    directories = sorted(name.rpartition("/")[0].replace(url, "") for name in names)
    return sorted(map(str, rows.collect())), [one.rpartition("table")[2] for one in directories]


def append_without_magic(url: str, bucket: str) -> None:
    session().conf.set(f"fs.s3a.bucket.{bucket}.committer.magic.enabled", "false")
    append(url, 0, 30)


def append(url: str, low: int, high: int, commit: str = "ray") -> None:
    session().conf.set("spark.ray_committer.commit", commit)
    writer(frame(low, high), "parquet", None).mode("append").save(url)
    session().conf.set("spark.ray_committer.commit", "ray")


def rows_of(url: str) -> list[int]:
    return sorted(row[0] for row in session().read.parquet(url).select("id").collect())


def failing(url: str, attempts: int, until: str = "") -> None:
    """Append rows; in the second of three tasks, `attempts` attempts fail after they have closed some
    files and begun another, as soon as the file `until` is there, if one is given."""

    def some(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            yield batch
            if (context.partitionId(), number) == (1, 44) and context.attemptNumber() < attempts:
                deadline = time.monotonic() + 300
                while until and not Path(until).exists() and time.monotonic() < deadline:
                    time.sleep(0.1)
                raise ValueError("on purpose")

    append_in_files(url, some)


def append_in_files(url: str, change: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
    """Append 300 rows in three tasks, twenty rows in a file, as a function in Python yields them.

    The rows are large, so that not many wait in the buffers between Python and the file.
    """
    session().conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    rows = session().range(0, 300, 1, 3).selectExpr("id", "repeat('x', 50000) AS pad")
    rows = rows.mapInArrow(change, "id long, pad string")
    rows.write.mode("append").option("maxRecordsPerFile", "20").parquet(url)


def partitioned(url: str, low: int, high: int) -> None:
    writer(frame(low, high), "parquet", "p").mode("append").save(url)


def large(url: str) -> list[int]:
    """Write two files, one of them in three parts; the sizes of the files that Spark itself writes."""
    rows = session().range(0, 2, 1, 2).selectExpr("repeat('x', int(id) * 12000000 + 1) AS value")
    session().conf.set("spark.ray_committer.commit", "ray")
    rows.write.text(url)
    return [2, 12_000_002]


def beside(url: str, directory: str) -> list[int]:
    """Append in three tasks that wait in the middle of their files while other jobs overwrite and
    append; the ids of all rows then."""
    begun, go_on = Path(directory, "begun"), Path(directory, "go on")

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            begun.with_suffix(f".{context.partitionId()}").touch()
            wait_until(go_on.exists)

    def append_slowly() -> None:
        rows = session().range(100, 130, 1, 3).mapInArrow(slow, "id long")
        rows.write.mode("append").parquet(url)

    session().conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    with ThreadPoolExecutor(1) as threads:
        slowly = threads.submit(append_slowly)
        wait_until(lambda: slowly.done() or len([*begun.parent.glob("begun.*")]) == 3)
        frame(200, 230).select("id").write.mode("overwrite").parquet(url)
        frame(300, 330).select("id").write.mode("append").parquet(url)
        assert not slowly.done(), slowly.result()
        go_on.touch()
        slowly.result(200)
    return rows_of(url)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def killing(url: str, marker: str, go_on: str) -> None:
    """Append rows; once a file `go_on` is there, a task kills its executor in the middle of a file."""

    def some(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            yield batch
            if (context.partitionId(), number) == (1, 44) and not Path(marker).exists():
                wait_until(Path(go_on).exists)
                Path(marker).touch()
                os.kill(executor_of(os.getpid()), signal.SIGKILL)

    append_in_files(url, some)


def executor_of(pid: int) -> int:
    """The JVM that has started a Python worker."""
    while "java" not in Path(f"/proc/{pid}/comm").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def to_own_location(url: str, location: str) -> None:
    """Insert rows into a table one of whose partitions is elsewhere."""
    sql = session().sql
    sql(f"CREATE TABLE own (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p) LOCATION '{url}'")
    try:
        sql(f"ALTER TABLE own ADD PARTITION (p = 1) LOCATION '{location}'")
        sql("INSERT INTO own SELECT id, 1 FROM range(5)")
    finally:
        sql("DROP TABLE own")
