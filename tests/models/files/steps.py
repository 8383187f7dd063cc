"""What all processes do with a job: find it, change its state, write below it by path, clean up."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import TRANSITIONS, Phase
from tests.models.files.world import Job, Option, Path, Plan, Process, Rows, Rule, Shared, Step


class Steps:
    """The requests of processes, but for the rules that are left out."""

    def __init__(
        self,
        plan: Plan,
        options: frozenset[Option] = frozenset(),
        without: frozenset[Rule] = frozenset(),
    ) -> None:
        self.plan = plan
        self.options = options
        self.without = without

    def steps(self, shared: Shared, process: Process) -> Iterator[Step]:
        """What the next request of a process may lead to; nothing if it waits, or has ended."""
        if process.told is None:
            yield from getattr(self, f"_{process.does}_{process.step}")(shared, process)

    def outdated(self, process: Process, changed: int) -> Process:
        """Where a process is after another has changed the state of a job."""
        return process._replace(is_current=False) if process.job == changed else process

    def _has(self, rule: Rule) -> bool:
        return rule not in self.without

    @property
    def _is_flat(self) -> bool:
        return Option.FLAT in self.options

    def _go(self, shared: Shared, process: Process, step: str, **changes: object) -> Step:
        return shared, process._replace(step=step, **changes), -1  # type: ignore[arg-type]

    def _look(self, shared: Shared, process: Process) -> Step:
        """Begin again, with nothing but what the tasks have told."""
        kept = process if process.has_messages else process._replace(loaded=frozenset())
        again = kept._replace(step="look", at=0, after="", listed=None, entries=frozenset())
        return shared, again._replace(is_current=False), -1

    def _told(self, shared: Shared, process: Process, told: str) -> Step:
        who = {"task": process.task, "attempt": process.attempt, "loaded": process.loaded}
        kept = who if process.does == "task" else {}
        return shared, Process(process.does, process.job, "", told=told, **kept), -1  # type: ignore[arg-type]

    def _own(self, shared: Shared, process: Process) -> Job | None:
        """The job that the process means, if it is in its directory."""
        return shared.here if shared.here and shared.here.number == process.job else None

    def _found(self, shared: Shared, process: Process) -> tuple[Process, Phase | None]:
        own = self._own(shared, process)
        return process._replace(is_current=own is not None), own.phase if own else None

    def _changed(
        self, shared: Shared, process: Process, phase: Phase, step: str, **changes: object
    ) -> Iterator[Step]:
        """Change the state, and go on with `step`; or look again, since another was quicker."""
        own = self._own(shared, process)
        if own is None or not process.is_current or phase not in TRANSITIONS[own.phase]:
            yield self._look(shared, process)
            return
        after = own._replace(phase=phase, **changes)  # type: ignore[arg-type]
        known = process._replace(step=step, at=0, is_current=True)
        yield shared._replace(here=after), known, own.number

    def _end(self, shared: Shared, process: Process) -> Step:
        """Tell what has become of a job that is not there any more."""
        seen = [one.phase for one in shared.gone if one.number == process.job]
        if shared.success == process.job or Phase.COMMITTED in seen:
            return self._told(shared, process, "committed")
        return self._told(shared, process, "refused" if Phase.ABORTED in seen else "unknown")

    def path(self, rows: Rows) -> Path:
        """The name of a file, which is final."""
        job, task, attempt, piece = rows
        return Path(
            job if self._has(Rule.OF_ONE_JOB) else 0,
            task,
            attempt if self._has(Rule.UNIQUE) else 0,
            piece,
        )

    def token(self, path: Path) -> tuple[int, int, int]:
        """By what a file is known to be of an attempt."""
        return (path.job if self._has(Rule.OF_ONE_JOB) else 0, path.task, path.attempt)

    # Clean-up.

    def _clean(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take away what is in the directory, whosever it is by now."""
        told = "committed" if process.does == "commit" else "aborted"
        if shared.here is None:
            yield self._told(shared, process, told)
            return
        away = shared._replace(here=None, gone=(*shared.gone, shared.here))
        yield self._go(away, process, "inside", at=shared.here.number)

    def _inside(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look inside what was taken away, and delete it or put it back."""
        told = "committed" if process.does == "commit" else "aborted"
        taken = [one for one in shared.gone if one.number == process.at]
        is_meant = process.at == process.job or not self._has(Rule.LOOK_INSIDE)
        if taken:
            gone = tuple(one for one in shared.gone if one.number != process.at)
            if is_meant:
                shared = shared._replace(gone=gone, ends=(*shared.ends, *taken))
            elif shared.here is None:
                shared = shared._replace(gone=gone, here=taken[0])
        yield self._told(shared, process, told)

    _commit_clean = _abort_clean = _undo_clean = _clean
    _commit_inside = _abort_inside = _undo_inside = _inside
