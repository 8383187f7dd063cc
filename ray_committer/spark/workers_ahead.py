"""Start a commit's workers on Ray while the tasks of its job still run.

A worker takes about a second to start. In that time, threads of the driver commit a thousand files.
Spark reports each committed task to its driver, which starts workers when there are so many files that
they pay off. If they are not ready, or were lost, the job is committed without them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ray_committer.executors.base import CommitPool, Readiness
from ray_committer.executors.choose import (
    ExecutorName,
    ahead_pays_from,
    open_pool_ahead,
    start_pays_from,
)
from ray_committer.options import CommitOptions
from ray_committer.stores.registry import renames_are_local

_log = logging.getLogger(__name__)

OpenPool = Callable[[CommitOptions, str], CommitPool | None]


@dataclass(slots=True)
class _Job:
    """A job that is set up, and its workers if they were asked for. With `has_left`, the job is being
    committed, or has ended, so workers that start later are not used."""

    options: CommitOptions
    about: str
    is_started: bool = False
    pool: CommitPool | None = None
    has_left: bool = False


class WorkersAhead:
    """The workers for the jobs of one driver, which are committed by `executor`; thread-safe. If the
    executor is a pool, it has its workers already."""

    def __init__(
        self, executor: ExecutorName | CommitPool, open_pool: OpenPool = open_pool_ahead
    ) -> None:
        self._executor = executor
        self._open_pool = open_pool
        self._lock = threading.Lock()  # not held during requests to Ray
        self._jobs: dict[str, _Job] = {}

    def expect(self, job_id: str, dest: str, options: CommitOptions) -> int | None:
        """Return the number of committed files from which to call `start` for a job; None for never."""
        if not isinstance(self._executor, str):
            return None
        try:
            is_local = renames_are_local(dest)
            files = ahead_pays_from(self._executor, options, renames_are_local=is_local)
        except Exception:  # noqa: BLE001 - the commit itself reports the error, if it needs Ray at all
            _log.debug("cannot find out whether workers would pay off", exc_info=True)
            return None
        if files is not None:
            with self._lock:
                self._jobs[job_id] = _Job(options, f"{job_id} at {dest}")
        return files

    def start(self, job_id: str) -> None:
        """Start workers for an expected job, once, if there is room beside its tasks; never fails."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.is_started:
                return
            # Before Ray is asked, which takes seconds: Spark reports the next task meanwhile.
            job.is_started = True
        pool = None
        try:
            pool = self._open_pool(job.options, job.about)
        except Exception as e:  # noqa: BLE001 - the commit reports the error, if it needs Ray at all
            _log.info("no workers were started ahead for %s: %s", job.about, e)
        with self._lock:
            # Both under the lock: the commit finds the pool, or this thread sees that the job has left.
            has_left, job.pool = job.has_left, pool
        if has_left:
            _close(pool)

    @contextmanager
    def of(self, job_id: str, files: int) -> Iterator[ExecutorName | CommitPool]:
        """Yield the executor for the commit of a job with `files` files; workers end with the block."""
        job = self._leave(job_id)
        pool = job.pool if job else None
        if job is not None and pool is not None and not self._is_worth(pool, job.options, files):
            _close(pool)
            pool = None
        try:
            yield pool or self._executor
        finally:
            _close(pool)

    def end(self, job_id: str) -> None:
        """End the workers of a job that will not be committed; idempotent, never fails."""
        job = self._leave(job_id)
        _close(job.pool if job else None)

    def end_all(self) -> None:
        """`end` all jobs that are not being committed."""
        with self._lock:
            job_ids = list(self._jobs)
        for job_id in job_ids:
            self.end(job_id)

    def _leave(self, job_id: str) -> _Job | None:
        """Forget a job: workers that are being started, or are asked for later, are not used."""
        with self._lock:
            job = self._jobs.pop(job_id, None)
            if job is not None:
                job.has_left = True
            return job

    def _is_worth(self, pool: CommitPool, options: CommitOptions, files: int) -> bool:
        """Return whether to commit on the workers as they are now, and not as if they had not been
        started: `auto` uses threads then, or starts workers by the size of the cluster."""
        pays_from = start_pays_from(self._executor, options) if isinstance(self._executor, str) else None
        would_start = pays_from is not None and files >= pays_from
        match pool.readiness():
            case Readiness.READY:
                return True
            # The commit would wait for workers anyway: these are further than new ones.
            case Readiness.STARTING:
                return would_start
            # For a large job, all of the cluster's workers are worth their start.
            case Readiness.TOO_FEW:
                return not would_start
            case Readiness.LOST:
                return False


def _close(pool: CommitPool | None) -> None:
    """End workers, if there are any; a failure does not concern their job."""
    if pool is None:
        return
    try:
        pool.close()
    except Exception:  # noqa: BLE001 - Ray is gone, and the workers with it
        _log.info("workers that were started ahead could not be ended", exc_info=True)
