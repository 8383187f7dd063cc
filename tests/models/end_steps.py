"""The requests of those that end a job otherwise: abort, undo, vacuum, and who sweeps what is gone."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.steps import Steps
from tests.models.world import Place, Process, Rule, Shared, Step, files, with_job


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
        undoes = {Phase.RECORDED}
        if not self._has(Rule.NO_UNDO_OF_SEALED):
            undoes.add(Phase.SEALED)
        for known, phase in self._find(shared, process):
            if phase is None:
                yield self._end(shared, process)
            elif phase in undoes:
                yield self._go(shared, known, "decide")
            elif phase in UNDECIDED:
                yield self._go(shared, known, "abort")
            elif phase is Phase.UNDOING:
                yield self._go(shared, known, "take")
            elif phase is Phase.ABORTED:
                yield self._go(shared, known, "clean")
            else:
                yield self._told(shared, known, "refused")

    def _undo_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = shared.jobs[process.job]
        if job.phase is Phase.SEALED and process.is_current:  # only without the rule
            shared = with_job(shared, process.job, job._replace(phase=Phase.RECORDED))
        yield from self._changed(shared, process, Phase.UNDOING, "take")

    def _undo_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take one file from one of its two places; in two requests a file."""
        job = self._own(shared, process)
        if job is None or job.record is None:
            yield self._look(shared, process)
            return
        wanted = files(process.job, self.plans[process.job], job.record.manifests)
        if process.at >= 2 * len(wanted):
            yield from self._changed(shared, process, Phase.ABORTED, "clean")
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
