"""The requests of a job's tasks and of the driver that sets it up."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.steps import Steps
from tests.models.world import Option, Place, Process, Rule, Shared, Step, with_job


class DriverSteps(Steps):
    """The steps of another attempt of a job's task, late, and of a set-up that is followed by a commit.

    Both know from the start which job they are of.
    """

    def _task_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        for _, phase in self._find(shared, process):
            is_open = phase is Phase.OPEN
            yield self._go(shared, process, "save") if is_open else self._told(shared, process, "failed")

    def _task_save(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Save a manifest by its name, whosever directory that is in by now."""
        number = self.here(shared, process.slot)
        if number < 0 or shared.jobs[number].manifests is None:
            yield self._told(shared, process, "failed")
            return
        job = shared.jobs[number]._replace(manifests=f"{process.job}late")
        shared = with_job(shared, number, job)
        again = self._has(Rule.LOOK_AGAIN)
        yield self._go(shared, process, "again") if again else self._told(shared, process, "saved")

    def _task_again(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = self._own(shared, process)
        is_frozen = job is not None and job.frozen == f"{process.job}late"
        is_frozen = is_frozen and Option.FLAT not in self.options  # copies have names of their own
        for _, phase in self._find(shared, process):
            counts = phase is Phase.OPEN or is_frozen
            yield self._told(shared, process, "saved" if counts else "failed")

    # A set-up, the job's tasks, and its commit.

    def _setup_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        if self.here(shared, process.slot) >= 0 or self._is_refused_by_attempts(shared, process.job):
            yield self._told(shared, process, "refused")
        else:
            yield self._go(shared, process, "begin")

    def _setup_begin(self, shared: Shared, process: Process) -> Iterator[Step]:
        if self.here(shared, process.slot) >= 0:
            yield self._told(shared, process, "refused")
        else:
            job = shared.jobs[process.job]._replace(place=Place.HERE)
            yield self._go(with_job(shared, process.job, job), process, "again")

    def _setup_again(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look at the other attempts once more."""
        if self._is_refused_by_attempts(shared, process.job):
            yield self._told(shared, process, "refused")
        else:
            yield self._go(shared, process, "noted")

    def _setup_noted(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look whether another attempt was committed, and is gone; then the tasks run."""
        job = shared.jobs[process.job]
        if shared.success in self.other_attempts(process.job) and self._has(Rule.LOOK_AT_SUCCESS):
            yield self._told(shared, process, "refused")
        elif job.place is not Place.HERE:
            yield self._told(shared, process, "failed")
        else:
            job = job._replace(manifests=f"{process.job}a")
            shared = with_job(shared, process.job, job)._replace(success=-1)
            commit = Process("commit", process.slot, job=process.job, meant=process.job)
            yield shared, commit, -1
