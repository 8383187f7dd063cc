"""Know which work a session has done: a second write under one run id is a mistake, and no repetition.

A retry is the same work in a new session, or after a commit that has failed. So a session remembers the
jobs that it has committed under each run id. This process is the session of its commits, and a Spark
application is the session of its writes. A batch of a stream is a session of its own: a query that is
started again repeats its last batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ray_committer.errors import SettingsError, mark

Key = tuple[str, str]
"""The URL of a destination, and a run id."""


class RunSession:
    """The jobs that a session has committed under run ids, and the run ids at work now."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._committed: dict[Key, set[str]] = {}
        self._at_work: set[Key] = set()
        self._lock = threading.Lock()

    @contextmanager
    def alone(self, key: Key | None) -> Iterator[None]:
        """Commit a job under a run id; `SettingsError` while this session commits another one."""
        with self._lock:
            if key is not None and key in self._at_work:
                raise second_write(key, "is being committed now")
            self._at_work |= {key} if key is not None else set()
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= {key} if key is not None else set()

    def remember(self, key: Key, job_ids: Iterable[str]) -> None:
        """Note that the caller was told that these jobs are committed."""
        with self._lock:
            self._committed.setdefault(key, set()).update(job_ids)

    def has_committed(self, key: Key, job_id: str) -> bool:
        """Whether this session was told that a job is committed."""
        with self._lock:
            return job_id in self._known or job_id in self._committed.get(key, ())


_THIS_PROCESS = RunSession()


def session_of(known_jobs: Iterable[str] | None) -> RunSession:
    """The session of a caller that knows its jobs itself, else this process."""
    return _THIS_PROCESS if known_jobs is None else RunSession(known_jobs)


_OF_SPARK: dict[str, tuple[str, dict[str, set[str]]]] = {}


def jobs_of_spark(session: str, batch: str, run_id: str) -> set[str]:
    """The jobs that a session of Spark has committed under a run id, to be added to. A session is an
    application, or a run of a query of a stream, which can only repeat its last batch."""
    kept, jobs = _OF_SPARK.get(session, ("", {}))
    # A query repeats only its last batch, so jobs of earlier ones are forgotten: a stream runs for
    # years.
    if kept != batch:
        jobs = {}
    _OF_SPARK[session] = batch, jobs
    return jobs.setdefault(run_id, set())


def in_batch(run_id: str | None, batch: str) -> str | None:
    """The run id of a write in a batch of a stream: one serves all of its batches."""
    return f"{run_id} {batch}" if run_id is not None and batch else run_id


def second_write(key: Key, what: str) -> SettingsError:
    """The error for the second write of a session under one run id, of which the first `what`."""
    dest, run_id = key
    return SettingsError(
        f"{mark(dest)}: this session has written under run id {run_id} before, and that write {what}",
        "nothing was changed, and the rows of this write are not in the table: give each write of a "
        "session a run id of its own",
    )
