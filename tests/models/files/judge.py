"""Judge a world: if every process died now, would the job be brought to its end, and to which?

Fresh processes do so, without any message, as a person would who runs what is printed. Then each job
that is committed shows the rows of exactly one attempt of each task, that of the manifest which counts,
and nothing else is visible.
"""

from __future__ import annotations

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.files.steps import Steps
from tests.models.files.world import Job, Option, Path, Process, Rows, Shared, files_of

_ROUNDS = 3
_MOST_STEPS = 60


class Judge:
    """Whether worlds end as they must; `steps` is what fresh processes do. With `spoils`, others remove
    or add files of attempts, so a job that is not recorded may be incomplete for ever. The attempts that
    have `staged` before count among the tasks of a commit that was not told how many there are."""

    def __init__(self, steps: Steps, staged: frozenset[Path], *, spoils: bool = False) -> None:
        self.steps = steps
        self.staged = staged
        self.spoils = spoils
        self.knows = not steps.options & {Option.UNTOLD, Option.PARTIAL}
        self._ends: dict[Shared, tuple[Shared, str | None]] = {}

    def problem(self, shared: Shared, process: Process) -> str | None:
        """What is wrong if all die in this world, in which `process` is one of them."""
        if shared not in self._ends:
            self._ends[shared] = self._ended(shared)
        end, wrong = self._ends[shared]
        if wrong is not None or process.told is None:
            return wrong
        match process.does, process.told:
            case _, ("lost" | "stuck" | "conflict") as told:
                return f"told {told}"
            case "commit", "committed" if not _is_committed(end, process.job):
                return "told committed, and is not"
            case (("abort" | "undo"), "aborted") if _is_committed(end, process.job):
                return "told aborted, and is committed"
            case "task", "saved" if self._is_forgotten(end, process):
                return "a task was told that it counts, and no attempt of it does"
        return None

    def _ended(self, shared: Shared) -> tuple[Shared, str | None]:
        """The job there brought to its end by what is printed for it, and what is wrong with that."""
        for _ in range(_ROUNDS):
            job = shared.here
            if job is None:
                shared = _put_back(shared)
                continue
            if job.phase in UNDECIDED and self._is_cut_off(job):
                return shared, "a task can save no more, and nothing was committed"
            is_whole = job.phase in UNDECIDED and self._is_whole(job)
            shared, told = self._run(shared, _END.get(job.phase, "commit"), job.number)
            if told in ("lost", "stuck", "conflict"):
                return shared, f"a job cannot be brought to its end: {told}"
            if told == "incomplete" and is_whole and not self.spoils:
                return shared, "a job of which all is saved cannot be committed"
            if told == "incomplete":
                shared, _ = self._run(shared, "abort", job.number)
        return shared, self._wrong(shared)

    def _run(self, shared: Shared, does: str, number: int) -> tuple[Shared, str | None]:
        process = Process(does, number, writer="fresh")
        for _ in range(_MOST_STEPS):
            step = next(self.steps.steps(shared, process), None)
            if step is None:
                break
            shared, process, _ = step
        return shared, process.told

    def _is_whole(self, job: Job) -> bool:
        saved = job.frozen if job.frozen is not None else job.saved or frozenset()
        return len({one.task for one in saved if one.job == job.number}) == self.steps.plan.tasks

    def _is_forgotten(self, end: Shared, process: Process) -> bool:
        """Whether the task's job is committed without any attempt of it."""
        rows = {one[1] for one in end.visible}
        of_task = {one for one in rows if one[:2] == (process.job, process.task)}
        return _is_committed(end, process.job) and not of_task

    def _is_left(self, job: Job) -> bool:
        """Whether the record has left out a file that it must not: of an attempt that counts, or staged
        before anything else, of a task without a manifest."""
        if job.record is None:
            return False
        counted = {name[1:] for name in job.record.packs}
        tasks = {name[2] for name in job.record.packs}
        beside = job.record.beside
        lost = {path for path in beside & self.staged if path.task not in tasks and not self.knows}
        return bool(lost or {path for path in beside if path[:3] in counted})

    def _is_cut_off(self, job: Job) -> bool:
        """Whether a task that was running can save no more, although nothing was committed."""
        frozen = {one.task for one in job.frozen or ()}
        waiting = [path for path, _ in job.staged if path in self.staged and path.task not in frozen]
        return not self.knows and job.frozen is not None and bool(waiting)

    def _wrong(self, end: Shared) -> str | None:
        allowed: set[Rows] = set()
        for job in (*end.ends, *end.gone):
            if job.phase is not Phase.COMMITTED:
                continue
            rows = {rows for _, rows in end.visible if rows[0] == job.number}
            if self._is_left(job):
                return "a file is lost that lay beside those that count"
            if len({one[1:3] for one in rows}) != len({one[1] for one in rows}):
                return f"rows are doubled: {sorted(rows)}"
            if self.knows and len(rows) != self.steps.plan.tasks * self.steps.plan.pieces:
                return f"rows are lost: there are {sorted(rows)}"
            if job.frozen is not None and {rows for _, rows in files_of(job.frozen)} != rows:
                return f"there are the rows of attempts that do not count: {sorted(rows)}"
            allowed |= rows
        foreign = {rows for _, rows in end.visible} - allowed
        return f"there are foreign rows: {sorted(foreign)}" if foreign else None


def _put_back(shared: Shared) -> Shared:
    """Put back by hand a job that was taken away by mistake."""
    for job in shared.gone:
        if job.phase not in (Phase.COMMITTED, Phase.ABORTED):
            gone = tuple(one for one in shared.gone if one is not job)
            return shared._replace(here=job, gone=gone)
    return shared


_END = {Phase.UNDOING: "undo", Phase.ABORTED: "abort"}


def _is_committed(end: Shared, number: int) -> bool:
    return any(one.number == number and one.phase is Phase.COMMITTED for one in (*end.ends, *end.gone))
