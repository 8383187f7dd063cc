"""The table that a job writes to, and the tables beside it: the ledger and the staging tables."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from dataclasses import dataclass

from ray_committer.errors import PathError
from ray_committer.records.database import Database
from ray_committer.records.session import Session

PREFIX = "_ray_committer_"
LEDGER = f"{PREFIX}jobs"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, and the schema in which it and those beside it are."""

    database: Database
    schema: str
    name: str

    @property
    def where(self) -> str:
        """How the table is named in a message."""
        return f"{self.database.shown} table {self.name}"

    def command(self, verb: str, write_id: int | None = None, *more: str) -> str:
        """A command for the table, or for one of its jobs, quoted for a shell."""
        name = self.name if self.database.kind == "sqlite" else f"{self.schema}.{self.name}"
        job = [] if write_id is None else [str(write_id)]
        return shlex.join(["ray-committer", "records", verb, self.database.shown, name, *job, *more])

    @property
    def quoted(self) -> str:
        return self.beside(self.name)

    @property
    def ledger(self) -> str:
        return self.beside(LEDGER)

    def beside(self, name: str) -> str:
        """The quoted name of a table in the same schema."""
        return f"{quote(self.schema)}.{quote(name)}"

    def staging_prefix(self, write_id: int) -> str:
        """How the names of the staging tables of one job begin."""
        return f"{self.all_staging}{write_id}_"

    @property
    def all_staging(self) -> str:
        """How the names of all staging tables begin."""
        # A hash and not the name: PostgreSQL cuts names off after 63 bytes, and then two tables would
        # share them.
        return f"{PREFIX}{hashlib.sha256(self.name.encode()).hexdigest()[:10]}_"

    def new_staging(self, write_id: int) -> str:
        """A name that no other task attempt has; at most 59 characters."""
        return f"{self.staging_prefix(write_id)}{secrets.token_hex(6)}"


def find_table(session: Session, text: str) -> Table:
    """Return the table of ``name`` or, where a database has schemas, ``schema.name``.

    Names are taken as they are: neither folded nor quoted.
    """
    first, dot, second = text.partition(".")
    name = second if dot else first
    bytes_of_longest = max(len(first.encode()), len(second.encode()))
    is_too_long = bytes_of_longest > session.dialect.longest_name
    if not name or not first or "." in second or "\0" in text or is_too_long:
        raise PathError(f"table {text!r}: is not the name of a table", "write NAME or SCHEMA.NAME")
    if dot and session.database.kind == "sqlite":
        raise PathError(f"table {text!r}: SQLite has no schemas", "write NAME")
    if name.startswith(PREFIX):
        raise PathError(f"table {text!r}: is one of ray-committer's own", "name another table")
    schema = session.dialect.schema_of(session, first if dot else "", name)
    return Table(session.database, schema, name)


def write_id_of(table: Table, staging: str) -> int | None:
    """Return the write id in the name of a staging table; None if it has none."""
    number = staging.removeprefix(table.all_staging).partition("_")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'
