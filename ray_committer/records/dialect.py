"""What differs between the databases: statements, locks, and the types of columns."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ray_committer.errors import PathError
from ray_committer.protocol.prepared import prepare
from ray_committer.records.arrow import pa
from ray_committer.records.database import Database


class Column(msgspec.Struct, frozen=True):
    """A column that a job writes; `type` is its type in staging tables, or empty: only nulls."""

    name: str
    type: str


prepare(Column)


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table: its `type` in the database; whether a row needs, or cannot give, a value."""

    name: str
    type: str
    is_required: bool = False
    is_generated: bool = False


class Queries(Protocol):
    """What a dialect needs of a session."""

    def query(self, statement: str, *values: object) -> list[tuple[object, ...]]: ...
    def execute(self, statement: str, *values: object) -> int: ...


class Dialect(Protocol):
    """One kind of database.

    begin: what begins a transaction in which each statement sees what was committed before it.
    for_update, for_share: what ends a SELECT so that its rows cannot be changed until the transaction
        ends, by anybody else, or by anybody.
    now, time_type: an expression, and the type of its value; `age` makes seconds of a column with it.
    folds_names: whether ``A`` and ``a`` are the same name.
    """

    begin: str
    for_update: str
    for_share: str
    now: str
    time_type: str
    folds_names: bool
    longest_name: int

    def prepare(self, database: Database) -> None:
        """Before a job is set up: make what a database is in, if it is a file."""

    def begin_session(self, session: Queries) -> None:
        """On a new connection: undo settings of a role that would change values or end statements."""

    def settle(self, session: Queries, lock_seconds: float) -> None:
        """Let the statements of this connection wait for a lock for so long."""

    def age(self, column: str) -> str:
        """An expression: seconds since the time in a column."""

    def schema_of(self, session: Queries, schema: str, name: str) -> str:
        """The schema of a table, or the one that it would be made in."""

    def columns(self, session: Queries, schema: str, name: str) -> list[TableColumn] | None:
        """The columns of a table; None if there is no such table, `PathError` if it is a view."""

    def tables(self, session: Queries, schema: str, prefix: str) -> list[str]:
        """The tables whose names begin with `prefix`."""

    def lock_name(self, session: Queries, name: str) -> None:
        """Wait until no other transaction has locked this name, and lock it for this transaction."""

    def lock_table(self, session: Queries, table: str, *, is_shared: bool) -> None:
        """Keep the columns as they are in this transaction, and unless it is shared, writers out."""

    def insert(self, session: Queries, statement: str) -> int:
        """Run an INSERT, and return how many rows it has added."""

    def staged(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        """The SQL type for an Arrow type, and the Arrow type that the driver is given; None: neither."""

    def fits(self, staged: str, declared: str) -> bool:
        """Whether each value of a staged type can be put into a column of a declared type unchanged."""

    def changed_values(self, name: str, declared: str) -> str | None:
        """A condition for values that the declared type would change without an error; None: no such."""

    def refuse_values(self, batch: pa.Table) -> str | None:
        """The first column with a value that the database would change; None if there is none."""


def not_a_table(name: str) -> PathError:
    """The error for a name whose rows are elsewhere, maybe where this database commits nothing."""
    return PathError(f"table {name!r}: is a view or a foreign table", "name the table with its rows")
