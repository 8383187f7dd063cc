"""The requests of an abort and of an undo."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.files.steps import Steps
from tests.models.files.world import File, Process, Rule, Shared, Step


class EndSteps(Steps):
    """The steps of those that give a job up."""

    def _abort_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        known, phase = self._found(shared, process)
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

    def _undo_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        known, phase = self._found(shared, process)
        if phase is Phase.RECORDED:
            yield self._go(shared, known, "decide")
        elif phase is Phase.UNDOING:
            yield self._go(shared, known, "open")
        else:
            yield from self._abort_look(shared, process)

    def _undo_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        if self._phase(shared, process) is Phase.RECORDED:
            yield from self._changed(shared, process, Phase.UNDOING, "open")
        else:
            yield from self._changed(shared, process, Phase.ABORTED, "clean")

    def _phase(self, shared: Shared, process: Process) -> Phase | None:
        own = self._own(shared, process)
        return own.phase if own else None

    def _undo_open(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Read the packs that the record names."""
        own = self._own(shared, process)
        if own is None or own.record is None:
            yield self._look(shared, process)
            return
        packs = dict(own.packs)
        found = [packs.get(name) for name in own.record.packs]
        if None in found:
            yield self._told(shared, process, "stuck")
        else:
            entries = frozenset[File]().union(*(one for one in found if one is not None))
            yield self._go(shared, process, "take", entries=entries, at=0)

    def _undo_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take one file from one of its two places, by its name; in two requests a file."""
        wanted = sorted(process.entries)
        if process.at >= 2 * len(wanted):
            known = process._replace(entries=frozenset())
            yield from self._changed(shared, known, Phase.ABORTED, "clean")
            return
        if self._own(shared, process) is None:
            yield self._look(shared, process)
            return
        file, is_second = wanted[process.at // 2], bool(process.at % 2)
        if is_second is not self._has(Rule.SOURCE_FIRST):
            assert shared.here is not None
            staged = frozenset(one for one in shared.here.staged if one[0] != file[0])
            shared = shared._replace(here=shared.here._replace(staged=staged))
        else:
            shared = shared._replace(visible=shared.visible - {file})
        yield self._go(shared, process, "take", at=process.at + 1)
