"""Spark's unchanged reads of a table with a log see exactly one committed version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.spark.session import load_jar
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.save_checkpoint import save_checkpoint
from tests.tables.support import pack_log

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FILTER_KEY = "mapreduce.input.pathFilter.class"
VERSION_KEY = "ray_committer.snapshot.version"
FEW, MANY = range(3), range(34)
"""Spark lists more than 32 directories in tasks."""
GONE = (
    "FILE_NOT_EXIST",
    "does not exist",
    "FileNotFoundException",
    "the files of no version",
    "partition columns have changed",
)
"""How a read fails if files are removed between the listing and the read, or during each listing."""

Rows = frozenset[tuple[int, int]]


@pytest.fixture
def reader(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as with ``spark.sql.extensions=io.raycommitter.SnapshotExtensions``."""
    load_jar(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    extensions = jvm.io.raycommitter.SnapshotExtensions()
    extensions.apply(spark._jsparkSession.extensions())
    yield spark.newSession()
    spark.sparkContext._jsc.hadoopConfiguration().unset(FILTER_KEY)


@pytest.fixture
def table(tmp_path: Path) -> str:
    dest = tmp_path / "t"
    dest.mkdir()
    ray_committer.init_table(str(dest))
    return str(dest)


def commit(dest: str, number: int, days: range, mode: str = "append", files: int = 1) -> int:
    """Commit a job with rows of `number` in some partitions; the version of its commit."""
    options = CommitOptions(mode=ConflictMode(mode))
    job = ray_committer.setup_job(dest, f"job_{number}", options=options)
    with ray_committer.task_attempt(dest, job, task=0) as attempt:
        for day in days:
            for file in range(files):
                with attempt.open(f"day={day}/part-{number}-{file}.csv") as out:
                    out.write(b"%d\n" % number)
    version = ray_committer.commit_job(dest, job, options=options).table_version
    assert version is not None
    return version


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row[0]) for row in frame.collect())


def read(reader: SparkSession, path: str, **options: Any) -> DataFrame:
    return reader.read.schema("number INT").options(**options).csv(path)


@pytest.mark.parametrize("days", [FEW, MANY], ids=["in the driver", "in tasks"])
def test_only_files_of_committed_jobs_are_read(reader: SparkSession, table: str, days: range):
    first = commit(table, 1, days)
    commit(table, 2, range(1))
    place = Path(table, "day=1")
    (place / "foreign.csv").write_text("99\n")
    assert numbers(read(reader, table)) == sorted([*[1] * len(days), 2])
    assert numbers(read(reader, f"{table}/day=*")) == sorted([*[1] * len(days), 2])
    assert numbers(read(reader, str(place))) == [1]
    assert numbers(read(reader, table, **{VERSION_KEY: str(first)})) == [1] * len(days)


def test_a_view_and_a_table_of_the_catalog_are_read_at_one_version(reader: SparkSession, table: str):
    commit(table, 1, FEW)
    Path(table, "day=1", "foreign.csv").write_text("99\n")
    reader.sql(f"CREATE TABLE c (number INT, day INT) USING csv PARTITIONED BY (day) LOCATION '{table}'")
    try:
        reader.sql("MSCK REPAIR TABLE c")
        assert numbers(reader.sql("SELECT number FROM c")) == [1, 1, 1]
        assert numbers(reader.sql("SELECT number FROM c WHERE day = 1")) == [1]
        Path(table, "day=2", "part-1-0.csv").unlink()
        reader.sql("REFRESH TABLE c")
        assert numbers(reader.sql("SELECT number FROM c WHERE day = 1")) == [1]
        with pytest.raises(Exception, match="the files of no version"):
            reader.sql("SELECT number FROM c").collect()
    finally:
        reader.sql("DROP TABLE c")


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (day)"])
def test_each_query_of_a_table_of_the_catalog_reads_the_version_that_is_set_then(
    reader: SparkSession, table: str, by: str
):
    """Spark keeps the listing of a table that it takes for one without partitions."""
    place = table if by else f"{table}/day=1"
    first = commit(table, 1, FEW)
    day = ", day INT" if by else ""
    reader.sql(f"CREATE TABLE c (number INT{day}) USING csv {by} LOCATION '{place}'")
    try:
        if by:
            reader.sql("MSCK REPAIR TABLE c")
        assert set(numbers(reader.sql("SELECT number FROM c"))) == {1}
        commit(table, 2, FEW)
        assert set(numbers(reader.sql("SELECT number FROM c"))) == {1, 2}
        reader.conf.set(VERSION_KEY, str(first))
        assert set(numbers(reader.sql("SELECT number FROM c"))) == {1}
        reader.conf.unset(VERSION_KEY)
        assert set(numbers(reader.sql("SELECT number FROM c"))) == {1, 2}
    finally:
        reader.conf.unset(VERSION_KEY)
        reader.sql("DROP TABLE c")


def test_a_table_without_a_log_passes(reader: SparkSession, tmp_path: Path):
    for day in MANY:
        Path(tmp_path, f"day={day}").mkdir()
        Path(tmp_path, f"day={day}", "a.csv").write_text("7\n")
    assert numbers(read(reader, str(tmp_path))) == [7] * len(MANY)
    assert numbers(read(reader, f"{tmp_path}/day=*")) == [7] * len(MANY)


def test_the_log_is_read_from_a_checkpoint_and_lists_of_files(reader: SparkSession, table: str):
    commit(table, 1, range(2), files=600)
    places, store = TablePlaces(table), LocalStore(StoreSpec("file"))
    table_id = ray_committer.snapshot(table).table_id
    assert save_checkpoint(store, places, table_id) is None
    Path(places.entry(3)).rename(f"{places.entry(3)}.away")  # the checkpoint has it
    commit(table, 2, range(1), "overwrite_partitions")
    assert numbers(read(reader, table)) == [*[1] * 600, 2]


@pytest.mark.parametrize("starts", [(1,), (1, 4, 5), (1, 3, 5, 8)], ids=str)
def test_entries_that_share_a_file_are_read_at_any_version(
    reader: SparkSession, table: str, starts: tuple[int, ...]
):
    versions = [commit(table, number, FEW) for number in (1, 2, 3)]
    assert versions == [4, 6, 8]
    pack_log(LocalStore(StoreSpec("file")), starts, TablePlaces(table))
    wanted = list[int]()
    for number, version in enumerate(versions, 1):
        wanted += [number] * len(FEW)
        for at in (version, version + 1):
            if at <= versions[-1]:
                assert numbers(read(reader, table, **{VERSION_KEY: str(at)})) == wanted
    assert numbers(read(reader, table)) == wanted
    commit(table, 4, FEW)
    assert numbers(read(reader, table)) == wanted + [4] * len(FEW)


@pytest.mark.parametrize(
    "days", [FEW, pytest.param(MANY, marks=pytest.mark.wide)], ids=["in the driver", "in tasks"]
)
def test_a_missing_file_of_the_version_fails_the_read(reader: SparkSession, table: str, days: range):
    first = commit(table, 1, days)
    second = commit(table, 2, range(2), "overwrite_partitions")
    with pytest.raises(Exception, match=f"version {first} are gone"):
        read(reader, table, **{VERSION_KEY: str(first)}).collect()
    with pytest.raises(Exception, match=f"no version 99, the last one is {second + 1}"):
        read(reader, table, **{VERSION_KEY: "99"}).collect()
    with pytest.raises(Exception, match="is not a version"):
        read(reader, table, **{VERSION_KEY: "newest"}).collect()
    assert numbers(read(reader, f"{table}/day=2", **{VERSION_KEY: str(first)})) == [1]
    Path(table, "day=2", "part-1-0.csv").unlink()
    with pytest.raises(Exception, match="the files of no version"):
        read(reader, table).collect()
    assert numbers(read(reader, f"{table}/day=1")) == [2]


def test_a_damaged_log_fails_the_read(reader: SparkSession, table: str):
    commit(table, 1, FEW)
    entry = Path(TablePlaces(table).entry(4))
    data = entry.read_bytes()
    for content, text in [
        (data.replace(b'"claim":3', b'"claim":2'), "is not a file of a table log"),
        (data.replace(b'"format":2', b'"format":3'), "has format 3"),
        (b"", "is not a file of a table log"),
    ]:
        entry.write_bytes(content)
        with pytest.raises(Exception, match=text):
            read(reader, table).collect()
    entry.write_bytes(data)
    assert numbers(read(reader, table)) == [1, 1, 1]


class Writer:
    """Commits jobs, and knows the rows of each version. It never removes what another job appends."""

    def __init__(self, table: str, days: range) -> None:
        self.table, self.days = table, days
        self.states: list[Rows] = [frozenset()]
        self.reads = Semaphore()

    def commit_all(self, commits: int) -> None:
        for number in range(1, commits + 1):
            self.commit(number)

    def commit(self, number: int) -> None:
        """Commit a job while the reader is at work: after another read has ended."""
        self.reads.acquire()
        mode, days = [
            ("append", self.days),
            ("overwrite_partitions", range(1, len(self.days))),
            ("append", range(len(self.days) // 2)),
            ("overwrite", self.days),
        ][number % 4]
        new = {(day, number) for day in days}
        replaced = {"append": set[int](), "overwrite": set(self.days)}.get(mode, set(days))
        kept = {row for row in self.states[-1] if row[0] not in replaced}
        self.states.append(frozenset(kept | new))
        commit(self.table, number, days, mode)


def rows_or_failure(read: Callable[[str], DataFrame], table: str) -> list[tuple[int, int]] | str:
    try:
        return [(row[0], row[1]) for row in read(table).select("day", "number").collect()]
    except Exception as e:  # noqa: BLE001 - Spark raises many kinds; the caller knows the texts
        return str(e)


def check_reads(reader: SparkSession, writer: Writer, commits: int) -> int:
    """Read again and again while jobs are committed; the number of versions that were seen."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(writer.commit_all, commits)
        try:
            return len(set(versions_seen(reader, writer, running)))
        finally:
            writer.reads.release(commits)  # a reader that has failed does not hold it up
            running.result()


def versions_seen(reader: SparkSession, writer: Writer, running: Future[None]) -> Iterator[int]:
    last, read_csv = 0, reader.read.schema("number INT, day INT").csv
    while True:
        is_last = running.done()
        before = len(writer.states) - 2  # the commit of the last one can be at work
        found = rows_or_failure(read_csv, writer.table)
        writer.reads.release()
        if isinstance(found, str):
            assert any(text in found for text in GONE), found
            assert not is_last, found
            continue
        rows = frozenset(found)
        assert len(rows) == len(found)
        assert rows in writer.states, (sorted(rows), [sorted(state) for state in writer.states])
        at = writer.states.index(rows)
        assert at >= max(before, last), (at, before, last)
        last = at
        yield at
        if is_last:
            assert at == len(writer.states) - 1
            return


def test_a_reader_beside_jobs_sees_one_version_after_the_other(reader: SparkSession, table: str):
    assert check_reads(reader, Writer(table, FEW), 10) > 3


@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("days", [FEW, range(40)], ids=["in the driver", "in tasks"])
def test_a_reader_beside_many_jobs_sees_one_version_after_the_other(
    reader: SparkSession, table: str, days: range
):
    assert check_reads(reader, Writer(table, days), 100) > 20
