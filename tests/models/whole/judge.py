"""Judge a world: if every process died now, would the job be brought to its end, and to which?

Fresh processes do so, as a person would who runs what is printed; a recorded job is also given up, in
another copy of the world. Then a committed job shows exactly the files of its record, and another none;
what others have written, and their directories, are there.
"""

from __future__ import annotations

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.whole.steps import Steps, entries_of
from tests.models.whole.world import OTHERS, File, Job, Option, Process, Shared

_ROUNDS = 6
_MOST_STEPS = 80
_END = {Phase.UNDOING: "undo", Phase.ABORTED: "undo"}


class Judge:
    """Whether worlds end as they must. In the places that are `whole`, and in those that a process has
    counted as such, readers see all files or none. With a `stranger` or dropper, files may be lost."""

    def __init__(
        self, steps: Steps, first: Shared, *, whole: frozenset[str], spoils: bool, drops: bool
    ) -> None:
        self.steps = steps
        self.first = first
        self.whole = whole
        self.spoils = spoils
        self.drops = drops
        self.knows = Option.UNTOLD not in steps.options
        self._ends: dict[Shared, tuple[Shared, str | None]] = {}

    def problem(self, shared: Shared, process: Process) -> str | None:
        """What is wrong if all die in this world, in which `process` is one of them."""
        if shared not in self._ends:
            self._ends[shared] = self._judged(shared)
        end, wrong = self._ends[shared]
        wrong = wrong or self._counted_in_part(shared, process)
        if wrong is not None or process.told is None:
            return wrong
        match process.does, process.told:
            case _, ("lost" | "conflict") if not self.drops:
                return f"told {process.told}"
            case _, "missing" if not self.spoils:
                return "told that sources are missing"
            case _, ("stuck" | "endless") as told:
                return f"told {told}"
            case "commit", "committed" if not _has_ended(end, process.job, Phase.COMMITTED):
                return "told committed, and is not"
            case "undo", "aborted" if _has_ended(end, process.job, Phase.COMMITTED):
                return "told aborted, and is committed"
            case "rival" | "stranger", "done" if not self._has_kept(end, process):
                return "files of others are gone"
        return None

    def _has_kept(self, end: Shared, process: Process) -> bool:
        layout = self.steps.layout
        files = {(process.place, File(OTHERS, process.attempt, n)) for n in range(layout.pieces)}
        if process.does == "stranger":
            entry = layout.entries(process.task, process.attempt)[0]
            files = {(entry.place, entry.file._replace(content=OTHERS))}
        return files <= end.visible | end.dropped

    def _judged(self, shared: Shared) -> tuple[Shared, str | None]:
        wrong = self._seen_in_part(shared)
        end = shared = shared._replace(over=shared.over.replace("declared", ""))  # its process is dead
        if wrong is None and shared.here is not None and shared.here.phase is Phase.RECORDED:
            wrong = self._ended(shared, {**_END, Phase.RECORDED: "undo"})[1]
        if wrong is None:
            end, wrong = self._ended(shared, _END)
        return end, wrong

    def _seen_in_part(self, shared: Shared) -> str | None:
        """Whether a reader sees a part of what goes whole, while the job is committed."""
        job = shared.here
        if job is None or job.phase not in (Phase.RECORDED, Phase.SEALED, Phase.COMMITTED):
            return None
        for place in self.whole:
            if _is_seen_in_part(shared, job, place):
                return f"a reader sees a part of {place}"
        return None

    def _counted_in_part(self, shared: Shared, process: Process) -> str | None:
        """Whether a process counts a place as whole of which a reader sees a part."""
        job = shared.here
        if job is None or job.number != process.job or process.step not in ("move", "files"):
            return None
        if process.does != "commit" or job.phase not in (Phase.RECORDED, Phase.SEALED):
            return None
        left = {one.key for one in process.entries}
        for place in {one.place for one in entries_of(job) if one.key not in left}:
            if _is_seen_in_part(shared, job, place):
                return f"a part of {place} counts as whole"
        return None

    def _ended(self, shared: Shared, ends: dict[Phase, str]) -> tuple[Shared, str | None]:
        """The job there brought to its end by what is printed for it, and what is wrong with that."""
        for number in range(_ROUNDS):
            job = shared.here
            if job is None:
                break
            if job.place == "unclear":  # a set-up that never ended
                break
            is_whole = job.phase in UNDECIDED and self._is_whole(job)
            shared, told = self._run(shared, ends.get(job.phase, "commit"), job.number, number)
            if told in ("lost", "conflict") and self.drops:
                return shared, None
            if told in ("lost", "stuck", "conflict", "endless", None):
                return shared, f"a job cannot be brought to its end: {told}"
            if told in ("incomplete", "missing") and is_whole and not self.spoils:
                return shared, "a job of which all is saved cannot be committed"
            if told in ("incomplete", "missing"):
                shared, _ = self._run(shared, "undo", job.number, number)
        return shared, self._wrong(shared)

    def _run(self, shared: Shared, does: str, job: int, number: int) -> tuple[Shared, str | None]:
        process = Process(does, job, writer=f"fresh{number}")
        for _ in range(_MOST_STEPS):
            step = next(self.steps.steps(shared, process), None)
            if step is None:
                break
            shared, process, _ = step
        return shared, process.told

    def _is_whole(self, job: Job) -> bool:
        saved = job.frozen if job.frozen is not None else job.saved or frozenset()
        tasks = {one.task for one in saved if one.job == job.number}
        return self.knows and len(tasks) == len(self.steps.layout.tasks)

    def _wrong(self, end: Shared) -> str | None:
        if end.here is not None and end.here.place != "unclear":
            return f"a job is not at its end: {end.here.phase}"
        wanted: set[tuple[str, File]] = set()
        for job in (*end.ends, *end.gone):
            if job.phase is Phase.COMMITTED:
                if not self.knows and job.record is not None and job.record.beside:
                    return "a task is cut off whose files lay there"
                wanted |= {(one.place, one.file) for one in entries_of(job)}
        own = {one for one in end.visible if one[1].task != OTHERS and one[1].content != OTHERS}
        over = end.over == "done"
        if own - wanted:
            return f"there are foreign rows: {sorted(own - wanted)}"
        if wanted - own - end.dropped and not over:
            return f"rows are lost: {sorted(wanted - own - end.dropped)}"
        if over and own and ("a", File(OTHERS, 1)) in end.visible:
            return "two jobs that replace data are both there"
        if (self.first.visible - end.visible - end.dropped) and not over:
            return "files of others are gone"
        if self.first.there - end.there and not self.drops:
            return "a directory of others is gone"
        return None


def _is_seen_in_part(shared: Shared, job: Job, place: str) -> bool:
    wanted = {one.file for one in entries_of(job) if one.place == place}
    seen = {file for where, file in shared.visible if where == place} & wanted
    return bool(seen) and seen != wanted


def _has_ended(end: Shared, number: int, phase: Phase) -> bool:
    return any(one.number == number and one.phase is phase for one in (*end.ends, *end.gone))
