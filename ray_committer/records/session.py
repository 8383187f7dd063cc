"""A connection to a database, with one transaction at a time, and what is repeated when one is lost.

Each piece of work is written so that doing it again is harmless. So a COMMIT whose answer was lost needs
no rule of its own: the work runs again on a new connection, and finds what was committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, TypeVar

from ray_committer.errors import DatabaseUnavailableError, RayCommitterError
from ray_committer.limits import waiting
from ray_committer.records.connect import Connect, Connection, as_ours
from ray_committer.records.database import Database
from ray_committer.records.dialect import Dialect
from ray_committer.records.postgresql import Postgresql
from ray_committer.records.sqlite import Sqlite

T = TypeVar("T")
REPETITIONS = 3
"""How often a piece of work is done again if the database is not available."""
LOCK_SECONDS = 150.0
"""How long a statement waits for a lock, before each repetition."""

_log = logging.getLogger(__name__)


class Session:
    """Runs statements; its errors are `DatabaseUnavailableError` and `DatabaseRefusedError`."""

    def __init__(self, database: Database, connection: Connection, dialect: Dialect) -> None:
        self.database = database
        self.dialect = dialect
        self._connection = connection

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows; the statement names its `values` ``$1``, ``$2``, in this order."""
        with self._cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement without a result; return how many rows it changed, if the driver knows."""
        with self._cursor() as cursor:
            cursor.execute(statement, values or None)
            return int(cursor.rowcount)

    def ingest(self, schema: str, name: str, rows: Any) -> int:
        """Add Arrow rows to a table, all or none, and return how many there were."""
        where = "catalog_name" if self.database.kind == "sqlite" else "db_schema_name"
        with self._cursor() as cursor:
            return int(cursor.adbc_ingest(name, rows, mode="append", **{where: schema}))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block does, or roll it back if it raises."""
        self.execute(self.dialect.begin)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(RayCommitterError):  # without a connection, the server rolls back
                self.execute("ROLLBACK")
            raise

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with _errors_as_ours(self.database), closing(self._connection.cursor()) as cursor:
            yield cursor


@contextmanager
def _errors_as_ours(database: Database) -> Iterator[None]:
    try:
        yield
    except RayCommitterError:
        raise
    except Exception as e:  # noqa: BLE001 - of a driver
        # Drivers put the whole connection string into some errors: such a cause is not shown.
        has_secret = any(secret in str(e) for secret in database.secrets)
        raise as_ours(e, database) from None if has_secret else e


@contextmanager
def open_session(database: Database, connect: Connect) -> Iterator[Session]:
    """Open a session for the length of a block."""
    with _errors_as_ours(database):
        connection = connect(database)
    try:
        session = Session(database, connection, dialect_of(database))
        session.dialect.begin_session(session)
        session.dialect.settle(session, LOCK_SECONDS)
        yield session
    finally:
        with suppress(Exception):
            connection.close()


class Sessions:
    """Does pieces of work in one session, and in a new one after the database was not available."""

    def __init__(self, database: Database, connect: Connect) -> None:
        self.database = database
        self._connect = connect
        self._open = ExitStack()
        self._session: Session | None = None

    def run(self, work: Callable[[Session], T]) -> T:
        """Do a piece of work, again if the database is not available for a while.
        `DatabaseUnavailableError` if that did not help: whether the work was done is not known."""
        for attempt in range(1, REPETITIONS + 1):
            try:
                return self.once(work)
            except DatabaseUnavailableError as e:
                seconds = waiting.DATABASE.after(attempt)
                _log.warning("%s; trying again in %.1f s", e.what, seconds)
                waiting.sleep(seconds)
        return self.once(work)

    def once(self, work: Callable[[Session], T]) -> T:
        """Do a piece of work once."""
        try:
            if self._session is None:
                opened = open_session(self.database, self._connect)
                self._session = self._open.enter_context(opened)
            return work(self._session)
        except DatabaseUnavailableError:
            self.close()
            raise

    def close(self) -> None:
        """Close the session; the next piece of work opens another one."""
        self._session = None
        self._open.close()


def sessions(database: Database, connect: Connect) -> closing[Sessions]:
    """Sessions for the length of a block."""
    return closing(Sessions(database, connect))


def dialect_of(database: Database) -> Dialect:
    """Return the dialect of a database."""
    return _DIALECTS[database.kind]()


_DIALECTS: dict[str, Callable[[], Dialect]] = {"postgresql": Postgresql, "sqlite": Sqlite}
