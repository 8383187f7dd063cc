"""Judge a world: if every process died now, would the jobs be brought to their ends, and to which?

Fresh processes do so one after the other, as a person would who runs what is printed. Then the table
must be what the committed jobs make of it in some order, and nobody may have been told anything else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.steps import Steps
from tests.models.world import File, Job, Place, Process, Shared, files, is_own, with_job

_ROUNDS = 4
_MOST_STEPS = 100
"""One command ends long before; only where a rule is left out it may go on for ever."""

_ENDED = (Phase.COMMITTED, Phase.ABORTED)


class Judge:
    """Whether worlds end as they must; `steps` is what fresh processes do."""

    def __init__(self, steps: Steps, old: frozenset[File]) -> None:
        self.steps = steps
        self.old = old
        self._ends: dict[Shared, tuple[Shared | None, str | None]] = {}
        self._runs: dict[tuple[Shared, int], Shared] = {}

    def problem(self, shared: Shared, process: Process) -> str | None:
        """What is wrong if all die in this world, in which `process` is one of them."""
        if shared not in self._ends:
            end = self._ended(shared)
            self._ends[shared] = end, self._wrong_end(end)
        end, wrong = self._ends[shared]
        if wrong is not None or process.told is None or end is None or process.meant < 0:
            return wrong
        job, is_committed = end.jobs[process.meant], self._is_committed(end, process.meant)
        match process.does, process.told:
            case _, "lost" if not any(plan.is_later for plan in self.steps.plans):
                return "a file is lost"
            case _, "committed" if not is_committed:
                return "told committed, and is not"
            case (("abort" | "undo"), "aborted") if job.phase is Phase.COMMITTED:
                return "told aborted, and is committed"
            case (("abort" | "undo"), "aborted") if process.job != process.meant:
                return "gave up a later job of the same id"
            case "task", "saved" if job.record and job.record.manifests != f"{process.meant}late":
                return "a task was told that it counts, and does not"
        return None

    def _is_committed(self, end: Shared, number: int) -> bool:
        every = (number, *self.steps.other_attempts(number))
        return any(end.jobs[one].phase is Phase.COMMITTED for one in every)

    # The end of all jobs.

    def _ended(self, shared: Shared) -> Shared | None:
        """Every job brought to its end by what is printed for it; None if one cannot be."""
        for _ in range(_ROUNDS):
            for number in range(len(shared.jobs)):
                shared = self._run(shared, number)
        return shared if all(map(_is_ended, shared.jobs)) else None

    def _run(self, shared: Shared, number: int) -> Shared:
        """One job after one command, run alone."""
        before = shared, number
        if before in self._runs:
            return self._runs[before]
        job, slot = shared.jobs[number], self.steps.slot(number)
        if _is_mislaid(job) and self.steps.here(shared, slot) < 0:
            shared = with_job(shared, number, job._replace(place=Place.HERE))
        if shared.jobs[number].place is Place.HERE:
            does = {Phase.UNDOING: "undo", Phase.ABORTED: "abort"}.get(job.phase, "commit")
            process = Process(does, slot)
            for _ in range(_MOST_STEPS):
                step = next(self.steps.steps(shared, process), None)
                if step is None:
                    break
                shared, process, _ = step
        self._runs[before] = shared
        return shared

    def _wrong_end(self, end: Shared | None) -> str | None:
        if end is None:
            return "a job cannot be brought to its end"
        committed = [number for number, job in enumerate(end.jobs) if job.phase is Phase.COMMITTED]
        for number in committed:
            if set(committed) & set(self.steps.other_attempts(number)):
                return "two attempts of one job are committed"
            record = end.jobs[number].record
            if record is None or not is_own(number, record.manifests):
                return "a job has committed the files of another"
        if end.visible not in self._serial(end, committed):
            return f"there is {sorted(end.visible)} after {committed}"
        return None

    def _serial(self, end: Shared, committed: list[int]) -> Iterator[frozenset[File]]:
        """What is visible after the committed jobs, in each order in which they can have been."""
        for order in itertools.permutations(committed):
            visible = self.old
            for number in order:
                plan, record = self.steps.plans[number], end.jobs[number].record
                has_passed = record is not None and record.since & set(order[order.index(number) :])
                if has_passed or (plan.wants_none and visible):
                    break
                kept = frozenset(file for file in visible if file[0] not in plan.excludes)
                visible = kept | frozenset(files(number, plan, record.manifests if record else ""))
            else:
                yield visible


def _is_mislaid(job: Job) -> bool:
    """Whether a job was taken away by mistake, and is to be put back by hand."""
    return job.place in (Place.GONE, Place.SWEPT) and job.phase not in _ENDED


def _is_ended(job: Job) -> bool:
    if job.place is Place.HERE:
        return job.phase is Phase.OPEN
    return not _is_mislaid(job)
