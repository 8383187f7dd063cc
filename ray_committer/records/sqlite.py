"""SQLite: its catalog, its one lock, and its types.

A transaction that begins IMMEDIATE is the only writer of the file until it ends, so no other lock is
needed. Columns have an affinity, which converts values; only those are used that change nothing. Source:
https://www.sqlite.org/datatype3.html.
"""

from __future__ import annotations

import re
from pathlib import Path

from ray_committer.records.arrow import pa, pc
from ray_committer.records.database import Database, sqlite_path
from ray_committer.records.dialect import Queries, TableColumn, not_a_table

_TIME = re.compile(r"DATE|TIME")
_GENERATED = (2, 3)


class Sqlite:
    """The dialect of SQLite 3.31 and later, which ADBC's driver has in it."""

    begin = "BEGIN IMMEDIATE"
    for_update = ""
    for_share = ""
    now = "strftime('%Y-%m-%d %H:%M:%fZ', 'now')"
    time_type = "text"
    folds_names = True
    longest_name = 1000

    def prepare(self, database: Database) -> None:
        """Make an empty file, which is an empty database."""
        Path(sqlite_path(database)).touch()

    def begin_session(self, session: Queries) -> None:
        """There are no roles."""

    def settle(self, session: Queries, lock_seconds: float) -> None:
        session.query(f"PRAGMA busy_timeout = {lock_seconds * 1000:.0f}")

    def age(self, column: str) -> str:
        return f"(julianday('now') - julianday({column})) * 86400.0"

    def schema_of(self, session: Queries, schema: str, name: str) -> str:  # noqa: ARG002
        return "main"

    def columns(self, session: Queries, schema: str, name: str) -> list[TableColumn] | None:  # noqa: ARG002
        statement = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo($1)'
        view = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND lower(name) = lower($1)"
        if session.query(view, name):
            raise not_a_table(name)
        columns = []
        for column, kind, required, default, key, hidden in session.query(statement, name):
            is_required = bool(required) and default is None and not key
            columns.append(TableColumn(str(column), str(kind), is_required, hidden in _GENERATED))
        return columns or None

    def tables(self, session: Queries, schema: str, prefix: str) -> list[str]:  # noqa: ARG002
        statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, $1) = $2"
        names = session.query(f"{statement} ORDER BY name", len(prefix), prefix)
        return [str(name) for (name,) in names]

    def lock_name(self, session: Queries, name: str) -> None:
        """This transaction has the only lock already."""

    def lock_table(self, session: Queries, table: str, *, is_shared: bool) -> None:
        """This transaction has the only lock already."""

    def insert(self, session: Queries, statement: str) -> int:
        session.execute(statement)
        # ADBC's driver for SQLite does not return the number of rows of a statement.
        return int(str(session.query("SELECT changes()")[0][0]))

    def staged(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        types = pa.types
        # SQLite's integers are signed and have 64 bits.
        if types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64()):
            return "integer", pa.int64()
        if types.is_floating(kind):
            return "real", pa.float64()
        if types.is_string(kind) or types.is_large_string(kind):
            return "text", pa.string()
        if types.is_date(kind) or types.is_timestamp(kind):
            return "datetime text", pa.string()
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return "blob", pa.binary()
        return None

    def fits(self, staged: str, declared: str) -> bool:
        affinity = _affinity(declared.upper())
        if affinity == "BLOB":  # values are stored as they are
            return True
        if staged == "integer":
            return affinity in ("INTEGER", "NUMERIC")
        if staged == "datetime text":  # it is no number, as another text can be
            is_time = _TIME.search(declared.upper()) is not None
            return affinity == "TEXT" or (affinity == "NUMERIC" and is_time)
        return affinity == staged.upper()

    def changed_values(self, name: str, declared: str) -> str | None:  # noqa: ARG002
        return None  # an affinity that fits changes nothing

    def refuse_values(self, batch: pa.Table) -> str | None:
        """NaN would be stored as null."""
        for name, column in zip(batch.column_names, batch.columns, strict=True):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return f"column {name!r} has NaN, which SQLite would store as null"
        return None


def _affinity(declared: str) -> str:
    """The affinity of a declared type, in the order of SQLite's rules."""
    if "INT" in declared:
        return "INTEGER"
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in declared or declared == "":
        return "BLOB"
    return "REAL" if any(word in declared for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"
