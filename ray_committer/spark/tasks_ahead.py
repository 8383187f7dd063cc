"""Load what Spark's tasks have committed while other tasks of their job still run.

Spark's driver sends the results of its tasks in batches. What they name is kept for each job until that
is committed or aborted. A job whose set-up another process has answered is loaded at its commit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from ray_committer.options import CommittedTask
from ray_committer.work.load_ahead import LoadAhead

JOBS = 64
"""The most jobs that are kept: one that its driver neither commits nor aborts must not stay for ever."""


class TasksAhead:
    """What is loaded for the jobs of one driver; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # not held during requests to a store
        self._jobs: OrderedDict[str, LoadAhead] = OrderedDict()

    def expect(self, job_id: str, ahead: LoadAhead) -> None:
        """Keep what is loaded for a job that was set up, until it is taken or ends."""
        with self._lock:
            forgotten = [self._jobs.pop(job_id)] if job_id in self._jobs else []
            self._jobs[job_id] = ahead
            if len(self._jobs) > JOBS:
                forgotten.append(self._jobs.popitem(last=False)[1])
        for earlier in forgotten:
            earlier.stop()

    def load(self, job_id: str, tasks: Sequence[CommittedTask]) -> bool:
        """Load what tasks of a job have committed; never fails. False if the job is not known."""
        with self._lock:
            ahead = self._jobs.get(job_id)
        if ahead is not None:
            ahead.add(tasks)
        return ahead is not None

    def take(self, job_id: str) -> LoadAhead | None:
        """What was loaded for a job that is committed now, or has ended; nothing more is loaded."""
        with self._lock:
            ahead = self._jobs.pop(job_id, None)
        if ahead is not None:
            ahead.stop()
        return ahead

    def end_all(self) -> None:
        """Forget all jobs that are not being committed."""
        with self._lock:
            job_ids = list(self._jobs)
        for job_id in job_ids:
            self.take(job_id)
