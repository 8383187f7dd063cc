"""Staging tables: each task attempt has its own, so nothing that it leaves can count as another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ray_committer.errors import RayCommitterError
from ray_committer.records.dialect import Column
from ray_committer.records.session import LOCK_SECONDS, Session
from ray_committer.records.table import Table, quote, write_id_of

DROP_SECONDS = 10.0
"""How long a DROP waits for those that still use the staging table."""


def make_staging(session: Session, table: Table, name: str, columns: Sequence[Column]) -> None:
    """Make a staging table."""
    session.execute(f"CREATE TABLE {table.beside(name)} ({definitions(columns)})")


def add_staging_column(session: Session, table: Table, name: str, column: Column) -> None:
    """Add a column, which is null in the rows that are there."""
    session.execute(f"ALTER TABLE {table.beside(name)} ADD COLUMN {definitions([column])}")


def definitions(columns: Sequence[Column]) -> str:
    """The columns of a CREATE TABLE; one that never had a value is a text."""
    return ", ".join(f"{quote(column.name)} {column.type or 'text'}" for column in columns)


def list_staging(session: Session, table: Table, write_id: int) -> list[str]:
    """Return the names of the staging tables of a job."""
    return session.dialect.tables(session, table.schema, table.staging_prefix(write_id))


def count_staging(session: Session, table: Table) -> Counter[int]:
    """Return how many staging tables each write id has."""
    names = session.dialect.tables(session, table.schema, table.all_staging)
    return Counter(number for name in names if (number := write_id_of(table, name)) is not None)


def drop_staging(session: Session, table: Table, names: Sequence[str]) -> list[str]:
    """Drop staging tables, each in its own transaction; return what could not be dropped, and why."""
    failures = []
    for name in names:
        try:
            # A short wait, since an attempt that hangs can use its table for hours; a later abort drops
            # it.
            session.dialect.settle(session, DROP_SECONDS)
            session.execute(f"DROP TABLE IF EXISTS {table.beside(name)}")
            session.dialect.settle(session, LOCK_SECONDS)
        except RayCommitterError as e:
            failures.append(f"{name}: {e.what}")
    return failures
