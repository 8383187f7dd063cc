"""Judge a world of a table: what readers see in it, and how it ends if every process dies now.

**A snapshot** is what the log says up to a version. Each of its files is there until a later `commit` in
the log removes it. So it is enough that, in every world, all files of the last version are there.

**A reader of directories** sees in each of them the files of the last version, and beside them only
files of jobs at work: new files of jobs that are not committed yet, and old files that a committed job
has not removed yet. Of the jobs at work whose files can be seen so in one directory, none replaces what
is there unless it is the only one; but a rewrite can be beside appends. So it sees the old and the new
rows of one overwrite at once, and never those of two.

**The end.** Fresh processes bring every job to its end: each command does one piece of its work and
dies. They commit what is not decided, or they give it up. Either way no claim is left in flight, the
directory is what the log says, and both are what the committed jobs make of the first files one by one,
in the order of their `commit` entries. What a job has read is what was there just before it in that
order.
"""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.errors import TableLogError
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.protocol.table_entry import Isolation
from tests.models.table_log import job_of
from tests.models.table_steps import TableSteps
from tests.models.table_world import (
    APPEND,
    CREATE,
    LEAVES,
    NO_FILES,
    REPLACE,
    REWRITE,
    Files,
    Job,
    Process,
    Shared,
    new_files,
    rows,
    within,
)

_MOST_STEPS = 100
"""One command makes progress long before; only where a rule is left out it may go on for ever."""


class TableJudge:
    """Whether worlds are as readers may see them, and end as they must; `steps` is what fresh processes
    do."""

    def __init__(self, steps: TableSteps, isolation: Isolation, old: Files) -> None:
        self.steps = steps
        self.isolation = isolation
        self.old = old
        self._problems: dict[Shared, str | None] = {}
        self._wrong_ends: dict[Shared, str | None] = {}
        self._ends: dict[tuple[Shared, bool], Shared] = {}

    def problem(self, shared: Shared, process: Process) -> str | None:
        """What is wrong in this world, in which `process` is one of those that may die."""
        if shared not in self._problems:
            try:
                self._problems[shared] = self._problem(shared)
            except TableLogError as e:
                self._problems[shared] = f"the log is wrong: {e}"
        return self._problems[shared] or (process.told and self._lie(shared, process))

    def end(self, shared: Shared, *, gives_up: bool = False) -> Shared:
        """The store after every job has been brought to its end by what is printed for it."""
        path = []
        while (shared, gives_up) not in self._ends:
            path.append(shared)
            after = self._further(shared, gives_up)
            if after is None:
                self._ends[shared, gives_up] = shared
            else:
                shared = after
        end = self._ends[shared, gives_up]
        for one in path:
            self._ends[one, gives_up] = end
        return end

    def _problem(self, shared: Shared) -> str | None:
        for gives_up in (False, True):
            end = self.end(shared, gives_up=gives_up)
            if end not in self._wrong_ends:
                self._wrong_ends[end] = self._wrong_end(end)
            if wrong := self._wrong_ends[end]:
                return wrong
        return self._wrong_view(shared)

    def _lie(self, shared: Shared, process: Process) -> str | None:
        phase = self.end(shared).jobs[process.job].phase
        if process.told == "committed" and phase is not Phase.COMMITTED:
            return "told committed, and is not"
        if process.told == "aborted" and phase is Phase.COMMITTED:
            return "told aborted, and is committed"
        return None

    # What readers see.

    def _wrong_view(self, shared: Shared) -> str | None:
        snapshot = self.steps.log.files(shared.log)
        if not snapshot <= shared.visible:
            return f"a file of the snapshot is not there: {sorted(snapshot - shared.visible)}"
        left = shared.visible - snapshot
        at_work: dict[int, Files] = {}
        for one in self.steps.log.state(shared.log).in_flight:
            number = job_of(one)
            job, plan = shared.jobs[number], self.steps.plans[number]
            own = new_files(number, plan, job.read) if one.committed is None else job.record
            at_work[number] = left & (own or NO_FILES)
            left -= at_work[number]
        if left:
            return f"a file is seen that no job at work has written or removes: {sorted(left)}"
        for leaf in LEAVES if len(at_work) > 1 else ():
            numbers = [number for number, files in at_work.items() if within(files, (leaf,))]
            modes = [self.steps.plans[number].mode for number in numbers]
            if len(modes) > 1 and (set(modes) - {APPEND, REWRITE} or modes.count(REWRITE) > 1):
                return f"files of jobs {numbers} at work are seen in {leaf}"
        return None

    # The end of all jobs.

    def _further(self, shared: Shared, gives_up: bool) -> Shared | None:
        """The store after some command has got further, alone; None if none does."""
        for number, job in enumerate(shared.jobs):
            for does in _commands(job, gives_up):
                after, told = self._run(shared, Process(does, number))
                if after is not None:
                    return after
                if told == "waited":
                    break  # for another job, which is next
        return None

    def _run(self, shared: Shared, process: Process) -> tuple[Shared | None, str | None]:
        """Run one command alone, until it has got further or ends."""
        before = _progress(shared)
        for _ in range(_MOST_STEPS):
            step = next(self.steps.steps(shared, process), None)
            if step is None:
                break
            is_same, (shared, process, _) = shared is step[0], step
            if not is_same and _progress(shared) != before:
                return shared, None
        return None, process.told

    def _wrong_end(self, end: Shared) -> str | None:
        if any(job.is_here for job in end.jobs):
            return "a job cannot be brought to its end"
        if in_flight := self.steps.log.state(end.log).in_flight:
            return f"the claims of jobs {[job_of(one) for one in in_flight]} are in flight for ever"
        if end.visible != (said := self.steps.log.files(end.log)):
            return f"there is {sorted(end.visible)}, but the log says {sorted(said)}"
        committed = [one.job for one in end.log if one.kind == "commit" and one.job >= 0]
        if sorted(committed) != [n for n, job in enumerate(end.jobs) if job.phase is Phase.COMMITTED]:
            return f"the log says that {committed} are committed"
        return next(self._wrong_order(end, committed), None)

    def _wrong_order(self, end: Shared, committed: list[int]) -> Iterator[str]:
        """What is wrong if the committed jobs were run one by one."""
        there = self.old
        for number in committed:
            plan, job = self.steps.plans[number], end.jobs[number]
            added = new_files(number, plan, job.read)
            if plan.mode is CREATE and within(there, (plan.where,)):
                yield f"job {number} was to find no data"
            if plan.mode is REWRITE and not job.read <= there:
                yield f"job {number} has rewritten files that were not there"
            if (reads := self._checked(number)) and rows(within(job.read, reads)) != rows(
                within(there, reads)
            ):
                yield f"job {number} has read {sorted(job.read)} where there was {sorted(there)}"
            removed = within(there, (plan.where,)) if plan.replaces else NO_FILES
            there = there - (job.read if plan.mode is REWRITE else removed) | added
        if end.visible != there:
            yield f"there is {sorted(end.visible)}, but one by one there would be {sorted(there)}"

    def _checked(self, number: int) -> tuple[str, ...]:
        """What a job must have read as it was just before it, at this level of isolation."""
        plan = self.steps.plans[number]
        if self.isolation is Isolation.NONE:
            return ()
        if self.isolation is Isolation.SNAPSHOT or plan.mode is REWRITE:
            return (plan.where,) if plan.mode is REPLACE else ()
        return plan.all_reads


def _commands(job: Job, gives_up: bool) -> tuple[str, ...]:
    """What is printed for a job: the second if the first is refused."""
    if not job.is_here or job.phase is None:
        return ()
    if job.phase in UNDECIDED:
        return ("abort",) if gives_up or job.unread else ("commit", "abort")
    if job.phase is Phase.RECORDED:
        return ("undo",) if gives_up else ("commit",)
    return ({Phase.UNDOING: "undo", Phase.ABORTED: "abort"}.get(job.phase, "commit"),)


def _progress(shared: Shared) -> object:
    """What tells that a command has got further: all but whether an undecided job is declared."""
    jobs = [
        None if job.phase in UNDECIDED and job.is_here else (job.phase, job.is_here, job.taken)
        for job in shared.jobs
    ]
    return jobs, shared.visible, shared.log
