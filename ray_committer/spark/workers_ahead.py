"""Start a commit's workers on Ray while the tasks of its job still run.

A worker takes about a second to start, in which threads of the driver commit a thousand files. Spark
tells its driver of each task that has committed. Once their files are worth workers, these are started,
and the commit finds them ready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName, ahead_pays_from, open_pool, start_pays_from
from ray_committer.options import CommitOptions

_log = logging.getLogger(__name__)

OpenPool = Callable[[CommitOptions], CommitPool]


def _start_workers(options: CommitOptions) -> CommitPool:
    return open_pool(options, reason="on workers that were started while the tasks ran")


@dataclass(slots=True)
class _Job:
    """A job that is set up; its workers once they were asked for. The lock is held while they are."""

    options: CommitOptions
    pool: CommitPool | None = None
    has_ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class WorkersAhead:
    """The workers of the jobs of one driver; safe for threads.

    Jobs run by `executor`: one that is a pool has its workers already.
    """

    def __init__(
        self, executor: ExecutorName | CommitPool, open_pool: OpenPool = _start_workers
    ) -> None:
        self._executor = executor
        self._open_pool = open_pool
        self._jobs: dict[str, _Job] = {}

    def expect(self, job_id: str, options: CommitOptions, *, renames_are_local: bool) -> int | None:
        """From how many committed files on `start` is to be called for a job; None if it never is."""
        if not isinstance(self._executor, str):
            return None
        options = replace(options, may_start_ray=False)
        files = ahead_pays_from(self._executor, options, renames_are_local=renames_are_local)
        if files is not None:
            self._jobs[job_id] = _Job(options)
        return files

    def start(self, job_id: str) -> None:
        """Start workers for a job that is expected; idempotent. Does not wait for them."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        with job.lock:
            if job.pool is None and not job.has_ended:
                job.pool = self._open_pool(job.options)
                _log.info("job %s: workers for its commit are being started", job_id)

    @contextmanager
    def of(self, job_id: str, files: int) -> Iterator[ExecutorName | CommitPool]:
        """Where to commit a job of so many files; its workers end with the block.

        Workers that are not ready by now are waited for only if it would pay to start them now.
        """
        job = self._jobs.get(job_id)
        try:
            yield self._executor if job is None else self._choose(job, files)
        finally:
            self.end(job_id)

    def end(self, job_id: str) -> None:
        """End the workers of a job; idempotent."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        with job.lock:
            job.has_ended = True
            if job.pool is not None:
                job.pool.close()

    def _choose(self, job: _Job, files: int) -> ExecutorName | CommitPool:
        with job.lock:
            pool = job.pool
        if pool is None or not isinstance(self._executor, str):
            return self._executor
        pays_from = start_pays_from(self._executor, job.options)
        is_worth = pool.is_ready() or (pays_from is not None and files >= pays_from)
        return pool if is_worth else self._executor
