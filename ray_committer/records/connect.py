"""Connections by ADBC, and the errors of its drivers as errors of this package."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from ray_committer.errors import (
    DatabaseRefusedError,
    DatabaseUnavailableError,
    PathError,
    RayCommitterError,
    StoreRefusedError,
    mark,
)
from ray_committer.records.database import Database, sqlite_path

_FOR_NOW = ("08", "40", "53300", "55P03", "57P")
"""The SQLSTATEs, or their beginnings, after which the same statement can succeed: a lost connection, a
deadlock, too many connections, a lock that was not had in time, a server that stops."""
_LOCKED = re.compile(r"database( \w+)? is locked$", re.MULTILINE)
"""SQLite's texts; a name in another text can be any word."""
_SERVERS = re.compile(r"(?:ERROR|FATAL): +(.*)")


class Cursor(Protocol):
    """What is used of a cursor of ADBC's DBAPI."""

    rowcount: int

    @property
    def description(self) -> Any: ...
    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def adbc_ingest(self, table_name: str, data: Any, mode: Any, **more: Any) -> int: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """What is used of a connection of ADBC's DBAPI."""

    def cursor(self) -> Cursor: ...
    def close(self) -> None: ...


Connect = Callable[[Database], Connection]


def connect(database: Database) -> Connection:
    """Open a connection, which commits each statement by itself; `PathError` for a missing file."""
    if database.kind == "sqlite" and not os.path.exists(path := sqlite_path(database)):
        raise PathError(f"{mark(path)}: does not exist", "check the path; the first job makes the file")
    try:
        driver = import_module(f"adbc_driver_{database.kind}.dbapi")
    except ImportError as e:
        raise StoreRefusedError(
            f"{mark(database.shown)}: needs a package that is not installed here ({e.name})",
            "install ray-committer[records] on all nodes",
        ) from e
    # Autocommit, because a transaction is begun by our own BEGIN, with the isolation that we need.
    opened: Connection = driver.connect(database.address, autocommit=True)
    return opened


def as_ours(error: Exception, database: Database) -> RayCommitterError:
    """Return the error of this package for one of a driver, without row values and the password."""
    message = _SERVERS.search(str(error))
    # ADBC's own text begins with the name of its status.
    first = re.sub(r"^[A-Z_]+: (\[\w+\] )?", "", str(error).partition("\n")[0])
    text = database.hide(message[1] if message else first)
    kind = DatabaseUnavailableError if _is_for_now(error) else DatabaseRefusedError
    return kind(f"{database.shown}: {text.strip()}")


def _is_for_now(error: Exception) -> bool:
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state).startswith(_FOR_NOW)
    return type(error).__name__ == "OperationalError" or bool(_LOCKED.search(str(error)))
