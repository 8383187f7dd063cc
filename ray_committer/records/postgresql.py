"""PostgreSQL: its catalog, its locks and its types.

All transactions are READ COMMITTED: a statement sees what was committed before it began, so what is read
after a lock is had is the newest.
"""

from __future__ import annotations

import hashlib
import re

from ray_committer.errors import PathError
from ray_committer.records.arrow import pa
from ray_committer.records.database import Database
from ray_committer.records.dialect import Queries, TableColumn, not_a_table

_COLUMNS = """\
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
  a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a',
  c.relkind IN ('r', 'p')
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""
_TABLES = """\
SELECT c.relname::text FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND starts_with(c.relname, $2) AND c.relkind = 'r'
ORDER BY c.relname"""
_SCHEMA = """\
SELECT coalesce(
  (SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.oid = to_regclass(quote_ident($1))),
  current_schema())::text"""
_SETTINGS = """\
SELECT set_config(name, CASE name WHEN 'client_encoding' THEN 'UTF8' ELSE '0' END, false)
FROM pg_catalog.pg_settings
WHERE name IN ('client_encoding', 'statement_timeout', 'transaction_timeout',
               'idle_in_transaction_session_timeout', 'idle_session_timeout')"""
"""ADBC sends UTF-8 whatever the encoding of a client is. A time limit of a role would end a long job; a
version that does not know a setting does not list it."""
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"text|citext|character varying(\(\d+\))?")
_VARCHAR = re.compile(r"character varying\((\d+)\)")
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_WIDER = {
    "smallint": ("smallint", "integer", "bigint"),
    "integer": ("integer", "bigint"),
    "bigint": ("bigint",),
    "real": ("real", "double precision"),
}


class Postgresql:
    """The dialect of PostgreSQL 12 and later."""

    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    for_update = " FOR UPDATE"
    for_share = " FOR SHARE"
    now = "clock_timestamp()"
    time_type = "timestamptz"
    folds_names = False
    longest_name = 63  # bytes

    def prepare(self, database: Database) -> None:
        """There is nothing to make: a server has its databases."""

    def begin_session(self, session: Queries) -> None:
        session.query(_SETTINGS)

    def settle(self, session: Queries, lock_seconds: float) -> None:
        session.query(f"SELECT set_config('lock_timeout', '{lock_seconds * 1000:.0f}', false)")

    def age(self, column: str) -> str:
        return f"extract(epoch FROM clock_timestamp() - {column})::float8"

    def schema_of(self, session: Queries, schema: str, name: str) -> str:
        schema_name = schema or session.query(_SCHEMA, name)[0][0]
        if schema_name is None:
            raise PathError(f"table {name!r}: its search_path has no schema", "write SCHEMA.NAME")
        return str(schema_name)

    def columns(self, session: Queries, schema: str, name: str) -> list[TableColumn] | None:
        rows = session.query(_COLUMNS, schema, name)
        # Rows of a foreign table are in another database, which this transaction does not commit.
        if not all(is_table for *_, is_table in rows):
            raise not_a_table(name)
        return [TableColumn(str(a), str(b), bool(c), bool(d)) for a, b, c, d, _ in rows] or None

    def tables(self, session: Queries, schema: str, prefix: str) -> list[str]:
        return [str(name) for (name,) in session.query(_TABLES, schema, prefix)]

    def lock_name(self, session: Queries, name: str) -> None:
        # Advisory locks are numbers. If two names have the same one, their jobs only wait for each
        # other.
        key = int.from_bytes(hashlib.sha256(f"ray_committer {name}".encode()).digest()[:8], signed=True)
        session.query(f"SELECT pg_advisory_xact_lock({key})")

    def lock_table(self, session: Queries, table: str, *, is_shared: bool) -> None:
        if is_shared:  # the lock of an INSERT
            session.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
            return
        session.execute("SET LOCAL row_security = off")  # a policy that hides rows is an error then
        session.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    def insert(self, session: Queries, statement: str) -> int:
        return session.execute(statement)

    def staged(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        types = pa.types
        if kind in _SAME:
            return _SAME[kind]
        if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
            return f"numeric({kind.precision},{kind.scale})", kind
        if types.is_fixed_size_binary(kind):
            return "bytea", pa.binary()
        # PostgreSQL keeps microseconds. A cast that would lose nanoseconds is an error before anything
        # is written.
        if types.is_timestamp(kind):
            zone = "with" if kind.tz else "without"
            return f"timestamp {zone} time zone", pa.timestamp("us", "UTC" if kind.tz else None)
        if types.is_time(kind):
            return "time without time zone", pa.time64("us")
        return None

    def fits(self, staged: str, declared: str) -> bool:
        if staged == "text":
            return _TEXT.fullmatch(declared) is not None
        if declared in _WIDER.get(staged, (staged,)):
            return True
        if staged in _DIGITS:
            return _fits_numeric(_DIGITS[staged], 0, declared)
        if numeric := _NUMERIC.fullmatch(staged):
            return _fits_numeric(int(numeric[1]), int(numeric[2]), declared)
        return False

    def changed_values(self, name: str, declared: str) -> str | None:
        """An assignment to varchar(n) cuts spaces off."""
        varchar = _VARCHAR.fullmatch(declared)
        return f"char_length({name}) > {varchar[1]}" if varchar else None

    def refuse_values(self, batch: pa.Table) -> str | None:  # noqa: ARG002 - the server refuses them
        return None


def _fits_numeric(precision: int, scale: int, declared: str) -> bool:
    """Whether all digits before and after the point fit."""
    if declared == "numeric":
        return True
    numeric = _NUMERIC.fullmatch(declared)
    if numeric is None:
        return False
    digits, after = int(numeric[1]), int(numeric[2])
    return after >= scale and digits - after >= precision - scale


_SAME: dict[pa.DataType, tuple[str, pa.DataType]] = {
    pa.bool_(): ("boolean", pa.bool_()),
    pa.int8(): ("smallint", pa.int16()),
    pa.uint8(): ("smallint", pa.int16()),
    pa.int16(): ("smallint", pa.int16()),
    pa.uint16(): ("integer", pa.int32()),
    pa.int32(): ("integer", pa.int32()),
    pa.uint32(): ("bigint", pa.int64()),
    pa.int64(): ("bigint", pa.int64()),
    pa.uint64(): ("numeric(20,0)", pa.decimal128(20, 0)),
    pa.float16(): ("real", pa.float32()),
    pa.float32(): ("real", pa.float32()),
    pa.float64(): ("double precision", pa.float64()),
    pa.string(): ("text", pa.string()),
    pa.large_string(): ("text", pa.large_string()),
    pa.binary(): ("bytea", pa.binary()),
    pa.large_binary(): ("bytea", pa.large_binary()),
    pa.date32(): ("date", pa.date32()),
    pa.date64(): ("date", pa.date32()),
}
