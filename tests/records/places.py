"""Where the tests of record jobs write to, and how a test follows or ends the statements of a job."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ray_committer.records.commit import commit_job, finish_job
from ray_committer.records.connect import Connect, Connection, connect
from ray_committer.records.database import Database, parse_database
from ray_committer.records.end import abort_job, abort_old_jobs
from ray_committer.records.job import RecordJob, start_job
from ray_committer.records.report import EndedRecordJob, RecordReport
from ray_committer.records.session import Sessions, sessions
from ray_committer.records.table import PREFIX, Table
from ray_committer.records.task import write_attempt
from tests.servers.postgresql import Postgresql

PAGE_URL = "postgresql://etl@db.example.com/sales"
"""The database of ``docs/records/README.md``, whose tables are ``public.orders``."""

CLEAN = multiprocessing.get_context("forkserver")
CLEAN.set_forkserver_preload(["tests.records.test_crashes", "adbc_driver_postgresql.dbapi"])

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """A database with nothing in it but a schema; `table` is a name for a table there.

    `look` is a session of the tests, which opening takes long.
    """

    url: str
    schema: str
    kind: str
    look: Sessions = field(repr=False)

    @property
    def table(self) -> str:
        return "t" if self.kind == "sqlite" else f"{self.schema}.t"

    @property
    def database(self) -> Database:
        return parse_database(self.url)

    @property
    def at(self) -> Table:
        return Table(self.database, self.schema, "t")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; ``{t}`` in it is the table."""
        return self.look.run(lambda session: session.query(statement.replace("{t}", self.at.quoted)))

    def ids(self) -> list[int]:
        """The values of the column `id`, in order; of no table: none."""
        if self.look.run(lambda session: session.dialect.columns(session, self.schema, "t")) is None:
            return []
        return [row[0] for row in self.query("SELECT id FROM {t} ORDER BY id")]

    def finish(self, job: RecordJob, connect: Connect = connect) -> RecordReport:
        with sessions(self.database, connect) as found:
            return finish_job(found, job.table, job.write_id)

    def abort(self, job: RecordJob, *, undo: bool = False) -> EndedRecordJob:
        return abort_job(self.look, job.table, job.write_id, undo=undo)

    def abort_old(self, *, seconds: float) -> list[EndedRecordJob]:
        return abort_old_jobs(self.look, self.at, older_than_seconds=seconds)

    def staging(self) -> list[str]:
        """The staging tables that are there."""
        prefix = self.at.all_staging
        return self.look.run(lambda session: session.dialect.tables(session, self.schema, prefix))

    def states(self) -> list[tuple[int, str]]:
        """The write ids of the ledger, and their states."""
        ledger = f'SELECT write_id, state FROM "{self.schema}"."{PREFIX}jobs" ORDER BY write_id'
        return [(number, state) for number, state in self.query(ledger)]


def postgres_place(server: Postgresql, look: Sessions) -> Place:
    """A new schema on a server."""
    schema = f"Test {next(_numbers)}"
    look.run(lambda session: session.execute(f'CREATE SCHEMA "{schema}"'))
    return Place(server.url(), schema, "postgresql", look)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {number}" for number in ids]})


SCHEMA = rows(1).schema


def write(
    place: Place, *tasks: Sequence[pa.Table], mode: str = "append", connect: Connect = connect
) -> RecordReport:
    """Write the tables of each task, as one job, and commit it."""
    job = open_job(place, mode=mode, connect=connect)
    return commit_job(
        job, [write_attempt(job, each, connect=connect) for each in tasks], connect=connect
    )


def open_job(
    place: Place, *, mode: str = "append", schema: pa.Schema | None = None, connect: Connect = connect
) -> RecordJob:
    job = start_job(place.url, place.table, mode=mode, schema=schema, connect=connect)
    assert job is not None
    return job


class Followed:
    """Connections that call `before` with the number of each statement, before it is sent."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self._before = before
        self.statements = 0
        self.texts: list[str] = []

    def __call__(self, database: Database) -> Connection:
        return _FollowedConnection(connect(database), self)

    def next(self, text: str) -> None:
        self.statements += 1
        self.texts.append(text)
        self._before(self.statements)


class Announcing(Followed):
    """Connections that tell when a statement is sent that begins with one of these words."""

    def __init__(self, *words: str) -> None:
        super().__init__(lambda _number: None)
        self._words = words
        self._sent = threading.Event()

    def next(self, text: str) -> None:
        super().next(text)
        if text.startswith(self._words):
            self._sent.set()

    def wait(self, seconds: float = 30.0) -> None:
        """Wait until that is sent; no longer than so, since a lock may keep it from being sent."""
        self._sent.wait(seconds)
        time.sleep(0.1)  # on its way


class _FollowedConnection:
    def __init__(self, connection: Connection, followed: Followed) -> None:
        self._connection, self._followed = connection, followed

    def cursor(self) -> Any:
        return _FollowedCursor(self._connection.cursor(), self._followed)

    def close(self) -> None:
        self._connection.close()


class _FollowedCursor:
    def __init__(self, cursor: Any, followed: Followed) -> None:
        self._cursor, self._followed = cursor, followed

    def execute(self, operation: str, parameters: Any = None) -> None:
        self._followed.next(operation)
        self._cursor.execute(operation, parameters)

    def adbc_ingest(self, *arguments: Any, **more: Any) -> int:
        self._followed.next("ingest")
        return self._cursor.adbc_ingest(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def count_statements(work: Callable[[Connect], object]) -> int:
    """Do `work`, and return how many statements it sends."""
    followed = Followed(lambda _number: None)
    work(followed)
    return followed.statements


def killed_before(number: int, work: Callable[..., object], place: Place, *values: object) -> bool:
    """Do ``work(place, *values, connect)`` in a process of its own that is killed before a statement;
    false if it ended before.

    That process comes from one that imports and does nothing else: this one can have threads of servers
    and of clients, and a fork of it can wait for a lock that one of these held.
    """
    child = CLEAN.Process(
        target=_do_until, args=(number, work, replace(place, look=None), *values), daemon=True
    )
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def _do_until(number: int, work: Callable[..., object], *values: object) -> None:
    def die(now: int) -> None:
        if now == number:
            os.kill(os.getpid(), signal.SIGKILL)

    work(*values, Followed(die))
