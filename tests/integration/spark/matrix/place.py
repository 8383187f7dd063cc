"""What a case of the matrix is: where it writes, what it writes, and how that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ray_committer.protocol.whole import ByFile
from ray_committer.version import PROTOCOL_KEY
from tests.integration.spark.matrix.differences import Difference

DONE, NOT_REFUSED = "done", "was not refused"
SPARKS_OWN = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"

GROUP = "int(id / 15) % 4"
"""Four values; each of the three tasks has two of them, so that a write makes six files."""


def one_of(*values: str) -> str:
    """An expression that has each of four values, each in a quarter of the rows."""
    return f"element_at(array({', '.join(values)}), {GROUP} + 1)"


COLUMNS = {
    "p": one_of("0", "1", "2", "NULL"),
    "q": "int(id / 10) % 2",
    "odd": one_of("'plain'", "'a b%/é日本'", "'😀\"''q'", "'x:y=z'"),
    "day": f"date_add(DATE'2026-01-30', {GROUP})",
}
"""Columns by which rows can be partitioned."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case writes: a directory, and a table of the catalog if it makes one.

    `errors` has the ends of writes that may fail, `seen` is what else a case wants compared.
    """

    spark: SparkSession
    home: Path
    table: str
    is_ours: bool
    errors: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    @property
    def dest(self) -> str:
        return str(self.home / "dest")

    def rows(self, start: int = 0, *columns: str, tasks: int = 3) -> DataFrame:
        """60 rows; without `columns` they have `p`, with four values, one of them null."""
        rows = self.spark.range(start, start + 60, numPartitions=tasks)
        chosen = (f"{COLUMNS[name]} AS {name}" for name in columns or ("p",))
        return rows.selectExpr("id", f"{COLUMNS['odd']} AS text", *chosen)

    def make_directory(self, path: Path) -> None:
        """A directory with the permissions that Spark gives it; its parents, too."""
        for one in (*reversed(path.parents), path):
            if not one.exists():
                one.mkdir()
                one.chmod(0o755)

    def views(self, *texts: str) -> None:
        """Name the rows that SQL has: `rows`, `more`, and `both` with a column more."""
        columns = {"rows": (0,), "more": (120,), "both": (0, "p", "q")}
        for name in columns.keys() & set(" ".join(texts).split()):
            self.rows(*columns[name]).createOrReplaceTempView(name)

    def sql(self, *statements: str) -> None:
        """Run statements; one that begins with "refused:" is refused."""
        for text in statements:
            with self.refused() if text.startswith("refused: ") else nullcontext():
                self.spark.sql(text.removeprefix("refused: ").format(t=self.table, dest=self.dest))

    def files(self, file_format: str = "parquet", schema: Any = None) -> DataFrame | None:
        """What is at the destination, unless it cannot be read."""
        read = self.spark.read if schema is None else self.spark.read.schema(schema)
        try:
            return read.format(file_format).load(self.dest)
        except Exception as e:  # noqa: BLE001 - compared
            self.seen.append(shown(e))
            return None

    def read_table(self, table: str | None = None) -> DataFrame:
        """What is in the table, of which the partitions in the catalog are compared, too."""
        try:
            partitions = self.spark.sql(f"SHOW PARTITIONS {table or self.table}").collect()
            self.seen.extend(sorted(row[0] for row in partitions))
        except AnalysisException as e:  # a table without partitions
            self.seen.append(shown(e))
        return self.spark.table(table or self.table)

    @contextmanager
    def tried(self) -> Iterator[None]:
        """What is done here may fail."""
        try:
            yield
        except Exception as e:  # noqa: BLE001 - compared
            self._ended(shown(e))
        else:
            self._ended(DONE)

    @contextmanager
    def refused(self) -> Iterator[None]:
        """What is done here fails."""
        with self.tried():
            yield
        if self.errors[-1].endswith(DONE):
            self._ended(NOT_REFUSED)

    def _ended(self, how: str) -> None:
        self.errors.append(f"{len(self.errors)}: {how}")

    @contextmanager
    def setting(self, key: str, value: str) -> Iterator[None]:
        before = self.spark.conf.get(key, None)
        self.spark.conf.set(key, value)
        try:
            yield
        finally:
            if before is None:
                self.spark.conf.unset(key)
            else:
                self.spark.conf.set(key, before)

    def by_spark(self) -> AbstractContextManager[None]:
        """What is written here is committed by Spark's own committer, whoever is compared."""
        return self.setting(PROTOCOL_KEY, SPARKS_OWN)


Write = Callable[[Place], DataFrame | None]
"""Writes, and returns how what it wrote is read; None if that cannot be read."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of write, with its differences.

    Our handler is asked for a commit unless `commits` says that it is not. Directories that are not
    there go whole, but for the reasons `by_file`. A case that needs Hive's catalog is `hive`.
    """

    name: str
    write: Write
    differs: tuple[Difference, ...] = ()
    commits: bool = True
    by_file: tuple[ByFile, ...] = ()
    least_spark: int = 3
    hive: bool = False


CASES: dict[str, Case] = {}


def add(name: str, write: Write, **more: Any) -> None:
    assert name not in CASES, name
    CASES[name] = Case(name, write, **more)


def case(**more: Any) -> Callable[[Write], Write]:
    """Make a function a case of its name."""

    def register(write: Write) -> Write:
        add(write.__name__.replace("_", " "), write, **more)
        return write

    return register


def shown(error: Exception) -> str:
    """The class of an error, its condition in Spark, and the class of its first cause in Java."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    parts = (type(error).__name__, condition and condition(), java and java.getClass().getName())
    return " ".join(part for part in parts if part)
