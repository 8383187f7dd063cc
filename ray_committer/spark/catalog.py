"""A table in the catalog of a running Spark session, which is told of partitions after a commit.

It is told as by ``MSCK REPAIR TABLE``, with the texts in the names of the directories, and keeps all
files. ``ALTER TABLE`` casts the texts to the types of the columns: of an integer, ``month=07`` would be
there once for each of the two. Source: Spark ``RepairTableCommand``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ray_committer.errors import CatalogError, CatalogTableError
from ray_committer.interop.catalogs.base import Catalog, Places, is_to_be_dropped, no_such_table
from ray_committer.protocol.partition_sql import batches, quoted_table
from ray_committer.protocol.partitions import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST = 100
"""The most partitions that are added at once."""
MANY = 20
"""From this number of partitions on, all that the catalog has are listed at once."""


class SparkTable(Catalog):
    """A table of the session's own catalog, ``spark_catalog``. `CatalogTableError` if it does not exist,
    or is a view; `CatalogError` if the catalog fails."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self.table = table
        self._spark, self._jvm = spark, spark.sparkContext._jvm
        with self._failures():
            state = self._session.sessionState()
            self._catalog = state.catalog()
            self._name = state.sqlParser().parseTableIdentifier(quoted_table(table))
            metadata = self._metadata()
            if metadata.tableType().name() == "VIEW":
                raise CatalogTableError(f"{table}: is a view, which has no partitions")
            columns = metadata.partitionColumnNames()
            self.columns = tuple(columns.apply(number) for number in range(columns.size()))
            self.location = _text_of(self._jvm, metadata.location())
            self._found = metadata
            self._is_forgotten = False

    def add(self, partitions: Sequence[Partition], places: Places) -> None:
        by_values = all(partition.is_found_by_values for partition in partitions)
        known_paths = set() if by_values else set(map(places.path_of, self.known()))
        with self._failures():
            new = list(
                self._new(
                    [partition for partition in partitions if partition.path not in known_paths], places
                )
            )
            for some in batches(new, MOST):
                # True: partitions that another process has added meanwhile are left as they are.
                self._catalog.createPartitions(self._name, self._sequence(some), True)
            self._forget_size()

    def drop(self, partitions: Sequence[Partition], places: Places) -> None:
        gone = {partition.path for partition in partitions}
        by_values = len(partitions) < MANY and all(
            partition.is_found_by_values for partition in partitions
        )
        specs = [
            known.spec()
            for known in self._listed(partitions if by_values else (None,))
            if is_to_be_dropped(_text_of(self._jvm, known.location()), gone, places)
        ]
        with self._failures():
            if specs:
                # Ignore those that are gone, do not purge, keep the data: files are the job's business.
                self._catalog.dropPartitions(self._name, self._sequence(specs), True, False, True)
                self._forget_size()

    def known(self) -> Iterable[str]:
        return [_text_of(self._jvm, known.location()) for known in self._listed((None,))]

    def refresh(self) -> None:
        """Forget which files the table had, and read anew what the session has cached of it."""
        with self._failures():
            if self._is_forgotten and self._session.sharedState().cacheManager().isEmpty():
                return
            self._spark.catalog.refreshTable(quoted_table(self.table))

    def _metadata(self) -> Any:
        try:
            return self._catalog.getTableMetadata(self._name)
        except Exception:
            # Asked after the failure: Spark's exceptions for a missing table differ between versions.
            if self._catalog.tableExists(self._name):
                raise
            raise no_such_table(self.table, "the catalog of the Spark session") from None

    @property
    def _session(self) -> Any:
        return self._spark._jsparkSession  # type: ignore[attr-defined,unused-ignore]

    def _forget_size(self) -> None:
        """Forget the files and statistics of the table, or count them anew, as the session is set."""
        commands = self._jvm.org.apache.spark.sql.execution.command
        commands.CommandUtils.updateTableStats(self._session, self._found)
        self._is_forgotten = True

    def _new(self, partitions: Sequence[Partition], places: Places) -> Iterator[Any]:
        """Partitions of the catalog, which have the format of the table."""
        jvm, old = self._jvm, self._found.storage()
        made = jvm.org.apache.spark.sql.catalyst.catalog.CatalogTablePartition
        format_of_table = [old.productElement(at) for at in range(1, old.productArity())]
        none, now_milliseconds = jvm.scala.Option.apply(None), time.time_ns() // 1_000_000
        empty = jvm.PythonUtils.toScalaMap({})
        for partition in partitions:
            place = jvm.org.apache.hadoop.fs.Path(_place(partition, places, self.location)).toUri()
            storage = old.copy(jvm.scala.Some(place), *format_of_table)
            yield made(self._spec(partition), storage, empty, now_milliseconds, -1, none)

    def _listed(self, partitions: Sequence[Partition | None]) -> Iterator[Any]:
        """The partitions of the catalog that have the values of some, or all for None."""
        with self._failures():
            for partition in partitions:
                spec = self._jvm.scala.Option.apply(None if partition is None else self._spec(partition))
                parts = self._catalog.listPartitions(self._name, spec)
                yield from (parts.apply(at) for at in range(parts.size()))

    def _spec(self, partition: Partition) -> Any:
        values: Mapping[str, str] = dict(partition.values)
        return self._jvm.PythonUtils.toScalaMap(values)

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Say in one sentence what the JVM says in a hundred lines."""
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except PySparkException as e:  # of an exception of Spark's own
            raise CatalogError(f"{self.table}: {_first_line(str(e))}") from e
        except Py4JJavaError as e:
            raise CatalogError(f"{self.table}: {_reason(e)}") from e
        except (Py4JError, OSError) as e:
            raise CatalogError(f"{self.table}: the JVM of Spark does not answer ({e})") from e


def _place(partition: Partition, places: Places, location: str) -> str:
    """Where a partition is. By its values alone, the catalog can find another directory: ``7`` for
    ``07`` if the column is an integer."""
    is_here = places.path_of(location) == ""
    return f"{location.rstrip('/')}/{partition.path}" if is_here else places.place(partition)


def _text_of(jvm: Any, uri: Any) -> str:
    """A location as Hadoop prints it, which is not quoted."""
    return str(jvm.org.apache.hadoop.fs.Path(uri).toString())


def _reason(error: Any) -> str:
    text = str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
    return _first_line(text)


def _first_line(text: str) -> str:
    return (text.strip() or "failed").splitlines()[0]
