"""What all processes do: find their job, change its state, tell what has become of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ray_committer.protocol.state import TRANSITIONS, UNDECIDED, Phase
from tests.models.world import (
    File,
    Job,
    Option,
    Place,
    Plan,
    Process,
    Rule,
    Shared,
    Step,
    files,
    in_root,
    with_job,
)


class Steps:
    """The requests of processes, but for the rules that are left out."""

    def __init__(
        self,
        plans: Sequence[Plan],
        options: frozenset[Option] = frozenset(),
        without: frozenset[Rule] = frozenset(),
    ) -> None:
        self.plans = plans
        self.options = options
        self.without = without

    def steps(self, shared: Shared, process: Process) -> Iterator[Step]:
        """What the next request of a process may lead to."""
        if process.told is None:
            yield from getattr(self, f"_{process.does}_{process.step}")(shared, process)

    def outdated(self, process: Process, changed: int) -> Process:
        """Where a process is after another has changed the state of a job."""
        if process.job == changed and process.is_current:
            return process._replace(is_current=False)
        return process

    def slot(self, number: int) -> int:
        """The first job that has the directory of this one."""
        mine = self.plans[number]
        same = (one.id == mine.id and one.attempt == mine.attempt for one in self.plans)
        return list(same).index(True) if mine.id else number

    def here(self, shared: Shared, slot: int) -> int:
        """The job that is in a directory now, or -1."""
        for number, job in enumerate(shared.jobs):
            if job.place is Place.HERE and self.slot(number) == slot:
                return number
        return -1

    def other_attempts(self, number: int) -> list[int]:
        mine = self.plans[number]
        every = enumerate(self.plans)
        return [one for one, plan in every if mine.id == plan.id != "" and mine.attempt != plan.attempt]

    def _has(self, rule: Rule) -> bool:
        return rule not in self.without

    def _own(self, shared: Shared, process: Process) -> Job | None:
        """The job that the process has seen, if it is still in its directory."""
        job = shared.jobs[process.job]
        return job if job.place is Place.HERE else None

    def _go(self, shared: Shared, process: Process, step: str, **changes: object) -> Step:
        return shared, process._replace(step=step, **changes), -1  # type: ignore[arg-type]

    def _look(self, shared: Shared, process: Process) -> Step:
        """Begin again: of all that the process knows only which job it means counts."""
        return shared, Process(process.does, process.slot, job=process.job, meant=process.meant), -1

    def _told(self, shared: Shared, process: Process, told: str) -> Step:
        ended = Process(process.does, process.slot, "", process.job, told=told, meant=process.meant)
        return shared, ended, -1

    def _change(self, shared: Shared, number: int, phase: Phase, **changes: object) -> Shared:
        job = shared.jobs[number]
        if self.options & {Option.STALE_OWN, Option.STALE_OTHERS}:
            changes["was"] = job.phase
        return with_job(shared, number, job._replace(phase=phase, **changes))  # type: ignore[arg-type]

    def _show(self, shared: Shared, visible: frozenset[File]) -> Shared:
        before = shared.before
        if Option.STALE_DATA in self.options:
            roots = {file[0] for file in visible ^ shared.visible}
            changed = {root: in_root(shared.visible, root) for root in roots}
            before = tuple(sorted((dict(before) | changed).items()))
        return shared._replace(visible=visible, before=before)

    def _advanced(
        self, shared: Shared, process: Process, phase: Phase, **changes: object
    ) -> tuple[Shared, int] | None:
        """The store after the process has changed its job's state, and whose it was; None if that is not
        the one that it knows any more.
        """
        number = process.job
        if not self._has(Rule.CONSUME):
            number = self.here(shared, process.slot)
            return (self._change(shared, number, phase, **changes), number) if number >= 0 else None
        job = shared.jobs[number]
        if job.place is not Place.HERE or not process.is_current or phase not in TRANSITIONS[job.phase]:
            return None
        return self._change(shared, number, phase, **changes), number

    def _changed(
        self, shared: Shared, process: Process, phase: Phase, step: str, **changes: object
    ) -> Iterator[Step]:
        """Change the state, and go on with `step`; or look again, since another was quicker."""
        loses = Option.LOST_ANSWERS in self.options
        found = self._advanced(shared, process, phase, **changes)
        if found is None:
            if loses and not self._has(Rule.READ_BACK):  # taken for an answer to one that was made
                yield self._go(shared, process, step, at=0, after="")
            yield self._look(shared, process)
            return
        after, number = found
        known = process._replace(step=step, at=0, is_current=True, job=number)
        yield after, known, number
        if loses:
            yield after, known._replace(step="back", after=step), number

    def _back(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Read back whether a change was made whose answer was lost."""
        if process.is_current and self._own(shared, process):
            yield self._go(shared, process, process.after, after="")
        else:
            yield self._look(shared, process)

    _commit_back = _abort_back = _undo_back = _back

    def _withdrawn(self, shared: Shared, process: Process, told: str) -> Iterator[Step]:
        """Withdraw what the process has declared itself, then wait and declare anew, or give up."""
        found = self._advanced(shared, process, Phase.OPEN)
        after, changed = found or (shared, -1)
        for step in (self._told(after, process, told), self._look(after, process)):
            yield step[0], step[1], changed

    # What the process finds.

    def _find(self, shared: Shared, process: Process) -> Iterator[tuple[Process, Phase | None]]:
        """What a look at the own job may show; the phase is None if it is not there any more."""
        number = self.here(shared, process.slot)
        is_known = process.job >= 0 and self._has(Rule.SAME_STAMP)
        if number < 0 or (is_known and number != process.job):
            yield process, None
            return
        job = shared.jobs[number]
        meant = number if process.meant < 0 else process.meant
        known = process._replace(job=number, is_current=True, meant=meant)
        yield known, job.phase
        if Option.STALE_OWN in self.options and job.was is not None:
            yield known._replace(is_current=False), job.was

    def _end(self, shared: Shared, process: Process) -> Step:
        """Tell what has become of a job that is not there any more."""
        if process.job < 0:
            return self._told(shared, process, "gone")
        job, is_commit = shared.jobs[process.job], process.does == "commit"
        is_gone = job.place in (Place.GONE, Place.SWEPT)
        is_noted = shared.success == process.job
        if not self._has(Rule.OWN_SUCCESS) and shared.success >= 0 and job.record is None:
            is_noted = self.plans[shared.success].id == self.plans[process.job].id != ""
        if is_gone and job.phase is Phase.ABORTED and not (is_commit and is_noted):
            return self._told(shared, process, "refused" if is_commit else "aborted")
        says_all = not self._has(Rule.OWN_STATE_IN_GONE) and not is_commit
        if is_noted or (is_gone and (says_all or job.phase is Phase.COMMITTED)):
            return self._told(shared, process, "committed")
        return self._told(shared, process, "unknown")

    # Other attempts of the same id.

    def _is_refused_by_attempts(self, shared: Shared, number: int) -> bool:
        """Whether another attempt is being committed, or a newer one runs."""
        for other in self.other_attempts(number):
            job = shared.jobs[other]
            is_newer = self.plans[other].attempt > self.plans[number].attempt
            if job.place is not Place.HERE or job.phase is Phase.ABORTED:
                continue
            if job.phase not in UNDECIDED or is_newer:
                return True
        return False

    def _abort_next(self, shared: Shared, others: Sequence[int]) -> tuple[Shared, int] | None:
        """Abort one of the other attempts; None if there is none left that can be."""
        for other in others:
            job = shared.jobs[other]
            if job.place is Place.HERE and job.phase in UNDECIDED:
                return self._change(shared, other, Phase.ABORTED), other
        return None

    # What is aside.

    def _taken_away(self, shared: Shared, number: int) -> Shared:
        """The store after the directory aside was renamed, if it is there."""
        job = shared.jobs[number]
        if job.place is not Place.HERE or job.aside is None:
            return shared
        return with_job(shared, number, job._replace(aside=None, away=job.aside | (job.away or set())))

    # Clean-up.

    def _clean(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the job's directory away; the state inside then tells whether it is the one that was
        meant.
        """
        told = "committed" if process.does == "commit" else "aborted"
        number = self.here(shared, process.slot)
        if number < 0:
            yield self._told(shared, process, told)
            return
        away = with_job(shared, number, shared.jobs[number]._replace(place=Place.GONE))
        if Option.FLAT in self.options:
            yield self._go(self._emptied(shared, number, process), process, "inside", kept=number)
        else:
            yield self._go(away, process, "inside", kept=number)

    def _emptied(self, shared: Shared, number: int, process: Process) -> Shared:
        """What a clean-up by names leaves of a job that has been set up again."""
        if number == process.job or self._has(Rule.OWN_NAMES):
            return shared
        job, every = shared.jobs[number], files(number, self.plans[number], f"{number}a")
        job = job._replace(manifests=None, frozen=None, taken=job.taken | set(every))
        return with_job(shared, number, job)

    def _inside(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look inside what was taken away, which changes no more, and delete it or put it back."""
        told = "committed" if process.does == "commit" else "aborted"
        job = shared.jobs[process.kept]
        is_meant = process.kept == process.job and process.is_current
        if Option.FLAT in self.options:  # the state, bound to its version, is the last to go
            if is_meant and job.place is Place.HERE:
                shared = with_job(shared, process.kept, job._replace(place=Place.DELETED))
        elif job.place is not Place.GONE:  # who sweeps has it by now
            pass
        elif is_meant or not self._has(Rule.LOOK_INSIDE):
            shared = with_job(shared, process.kept, job._replace(place=Place.DELETED))
        elif self.here(shared, process.slot) < 0:
            shared = with_job(shared, process.kept, job._replace(place=Place.HERE))
        yield self._told(shared, process, told)

    _commit_clean = _abort_clean = _undo_clean = _clean
    _commit_inside = _abort_inside = _undo_inside = _inside
