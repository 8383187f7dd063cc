"""The requests of those that end a job otherwise: abort, undo, vacuum, and who sweeps what is gone."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.steps import Steps
from tests.models.world import Option, Place, Process, Rule, Shared, Step, files, with_job


class EndSteps(Steps):
    """The steps of an abort, an undo and a sweep."""

    def _abort_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        for known, phase in self._find(shared, process):
            if phase is None:
                yield self._end(shared, process)
            elif phase in UNDECIDED:
                yield self._go(shared, known, "decide")
            elif phase is Phase.ABORTED:
                yield self._go(shared, known, "clean")
            else:
                yield self._told(shared, known, "refused")

    def _abort_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield from self._changed(shared, process, Phase.ABORTED, "clean")

    _undo_abort = _abort_decide

    def _undo_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        for known, phase in self._find(shared, process):
            if phase is None:
                yield self._end(shared, process)
            elif phase is Phase.RECORDED or (phase is Phase.SEALED and self._undoes(shared, known)):
                yield self._go(shared, known, "decide")
            elif phase in UNDECIDED:
                yield self._go(shared, known, "abort")
            elif phase is Phase.UNDOING:
                yield self._go(shared, known, "away")
            elif phase is Phase.ABORTED:
                yield self._go(shared, known, "clean")
            else:
                yield self._told(shared, known, "refused")

    def _undo_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield from self._changed(shared, process, Phase.UNDOING, "away")

    def _undoes(self, shared: Shared, process: Process) -> bool:
        """Whether a sealed job can be undone: every old file goes aside, and none is replaced."""
        job, plan = shared.jobs[process.job], self.plans[process.job]
        names = {file[:2] for file in job.record.old} if job.record else set()
        wanted = files(process.job, plan, job.record.manifests if job.record else "")
        says_so = Option.ASIDE in self.options and not any(file[:2] in names for file in wanted)
        return says_so or not self._has(Rule.NO_UNDO_OF_SEALED)

    def _undo_away(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take what is aside away first."""
        if self._has(Rule.AWAY_FIRST):
            shared = self._taken_away(shared, process.job)
        after = "restore" if self._has(Rule.BACK_BEFORE_ABORTED) else "take"
        yield self._go(shared, process, after, at=0)

    def _undo_restore(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put one old file back, where nothing has its name."""
        job = self._own(shared, process)
        if job is None:
            yield self._look(shared, process)
            return
        found = sorted((job.away or frozenset()) | (job.aside or frozenset()))
        if not found:
            yield self._go(shared, process, "clean" if job.phase is Phase.ABORTED else "take", at=0)
        elif any(one[:2] == found[0][:2] for one in shared.visible):
            yield self._told(shared, process, "conflict")
        else:
            without = {name: getattr(job, name) for name in ("aside", "away")}
            kept = {name: one - {found[0]} for name, one in without.items() if one is not None}
            shared = with_job(shared, process.job, job._replace(**kept))
            yield self._go(self._show(shared, shared.visible | {found[0]}), process, "restore")

    def _undo_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take one file from one of its two places; in two requests a file."""
        job = self._own(shared, process)
        if job is None or job.record is None:
            yield self._look(shared, process)
            return
        wanted = files(process.job, self.plans[process.job], job.record.manifests)
        if process.at >= 2 * len(wanted):
            after = "clean" if self._has(Rule.BACK_BEFORE_ABORTED) else "restore"
            yield from self._changed(shared, process, Phase.ABORTED, after)
            return
        file, is_second = wanted[process.at // 2], bool(process.at % 2)
        if is_second is not self._has(Rule.SOURCE_FIRST):
            shared = with_job(shared, process.job, job._replace(taken=job.taken | {file}))
        else:
            shared = self._show(shared, shared.visible - {file})
        yield self._go(shared, process, "take", at=process.at + 1)

    # Who sweeps, and aborts what is not decided.

    def _vacuum_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Abort one of the jobs that are there, or sweep; which of them it comes to is left open."""
        for number, job in enumerate(shared.jobs):
            if job.place is Place.HERE and job.phase in (*UNDECIDED, Phase.ABORTED):
                yield shared, Process("abort", self.slot(number)), -1
        yield shared, Process("sweep", process.slot), -1

    def _sweep_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take what was taken away once more; who did so before may not have looked inside yet."""
        for number, job in enumerate(shared.jobs):
            if job.place is Place.GONE:
                away = with_job(shared, number, job._replace(place=Place.SWEPT))
                yield self._go(away, process, "inside", kept=number)
        yield self._told(shared, process, "swept")

    def _sweep_inside(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = shared.jobs[process.kept]
        is_ended = job.phase in (Phase.COMMITTED, Phase.ABORTED)
        place = Place.DELETED if is_ended else Place.GONE
        yield self._told(with_job(shared, process.kept, job._replace(place=place)), process, "swept")
