"""The requests of a committer: load, pack, freeze, compare, look at the sources, record, move."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.files.steps import Steps
from tests.models.files.world import (
    File,
    Job,
    Manifest,
    Option,
    PackName,
    Process,
    Record,
    Rule,
    Shared,
    Step,
    files_of,
    replaced,
)


class CommitSteps(Steps):
    """The steps of a commit: of a driver, that has messages, and of the command line, that has none."""

    # While tasks run.

    def _commit_collect(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the next message, and pack what it says; or begin to commit."""
        told = {one.task for one in process.loaded}
        if told and (len(told) == self.plan.tasks or Option.PARTIAL in self.options):
            yield self._go(shared, process, "look", at=0)
        if process.at < len(shared.messages):
            loaded = replaced(process.loaded, shared.messages[process.at])
            known = process._replace(loaded=loaded, at=process.at + 1)
            if self._is_flat or not self._has(Rule.PACKS_FIRST):
                yield self._go(shared, known, "collect")
            else:
                yield self._go(shared, known, "pack", after="collect")

    # Packs, each of one manifest; the first is created before it has content.

    def _name(self, process: Process, manifest: Manifest) -> PackName:
        writer = process.writer if self._has(Rule.OWN_NAMES) else ""
        return writer, manifest.job, manifest.task, manifest.attempt

    def _next_pack(self, process: Process) -> Manifest | None:
        every = sorted(process.loaded, key=lambda one: one[:3])
        return next((one for one in every if self._name(process, one) not in process.packed), None)

    def _commit_pack(self, shared: Shared, process: Process) -> Iterator[Step]:
        if not self._has(Rule.OWN_PACKS):
            process = self._with_packs_found(shared, process)
        manifest = self._next_pack(process)
        if manifest is None:
            yield self._go(shared, process, process.after, after="")
        else:
            yield self._packed(shared, process, (self._name(process, manifest), None), "fill")

    def _with_packs_found(self, shared: Shared, process: Process) -> Process:
        packs = shared.here.packs if shared.here else frozenset()
        found = {name for name, content in packs if content is not None and name[0] != process.writer}
        has = {name[2] for name in found}
        loaded = frozenset(one for one in process.loaded if one.task not in has)
        return process._replace(packed=process.packed | found, loaded=loaded)

    def _commit_fill(self, shared: Shared, process: Process) -> Iterator[Step]:
        manifest = self._next_pack(process)
        assert manifest is not None
        name = self._name(process, manifest)
        packed = process.packed | {name}
        yield self._packed(shared, process, (name, manifest.files), "pack", packed=packed)

    def _packed(
        self,
        shared: Shared,
        process: Process,
        pack: tuple[PackName, frozenset[File] | None],
        step: str,
        **changes: object,
    ) -> Step:
        """A request for a pack, in whatever job is there by now; it fails where none is."""
        if shared.here is None:
            unclear = shared.is_unclear or not self._has(Rule.BESIDE)
            return self._look(shared._replace(is_unclear=unclear), process)
        packs = {one for one in shared.here.packs if one[0] != pack[0]} | {pack}
        here = shared.here._replace(packs=frozenset(packs))
        return self._go(shared._replace(here=here), process, step, **changes)

    # Load.

    def _commit_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        known, phase = self._found(shared, process)
        match phase:
            case None:
                yield self._end(shared, process)
            case Phase.OPEN if known.has_messages:
                yield from self._loaded(shared, known)
            case Phase.OPEN:
                yield self._go(shared, known, "list" if self._has(Rule.LISTED_FIRST) else "read")
            case Phase.DECLARED:  # by one that is dead, or is taken for it; else this one gives up
                yield from self._changed(shared, known, Phase.OPEN, "look")
                yield self._told(shared, known, "busy")
            case Phase.RECORDED:
                yield self._go(shared, known, "open")
            case Phase.COMMITTED:
                yield self._go(shared, known, "mark")
            case _:
                yield self._told(shared, known, "refused")

    def _commit_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        known = process._replace(listed=_current(own))
        if self._has(Rule.LISTED_FIRST):
            yield self._go(shared, known, "read")
        else:
            yield from self._loaded(shared, known)

    def _commit_read(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        known = process._replace(loaded=_current(own))
        if self._has(Rule.LISTED_FIRST):
            yield from self._loaded(shared, known)
        else:
            yield self._go(shared, known, "list")

    def _loaded(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Check what was loaded before anything is changed."""
        untold = Option.UNTOLD in self.options and self._has(Rule.UNSAVED)
        if self._is_incomplete(process):
            yield self._told(shared, process, "incomplete")
        elif untold and self._has(Rule.UNSAVED_FIRST):
            yield self._go(shared, process, "unsaved")
        else:
            yield self._go(shared, process, self._after_load())

    def _is_incomplete(self, process: Process) -> bool:
        every = process.loaded
        is_known = process.has_messages or Option.UNTOLD in self.options
        is_foreign = self._has(Rule.STAMP) and any(one.job != process.job for one in every)
        return is_foreign or not every or (not is_known and len(every) != self.plan.tasks)

    def _commit_unsaved(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for files of tasks that have not saved."""
        own = self._own(shared, process)
        tasks = {one.task for one in process.loaded}
        if own is None:
            yield self._look(shared, process)
        elif (own.frozen is None or not self._has(Rule.UNSAVED_FIRST)) and any(
            path.task not in tasks for path, _ in own.staged
        ):
            yield from self._withdrawn(shared, process)
        elif self._has(Rule.UNSAVED_FIRST):
            yield self._go(shared, process, self._after_load())
        else:
            yield self._go(shared, process, "sources")

    def _after_load(self) -> str:
        return "sources" if self._is_flat or not self._has(Rule.AFTER_FREEZE) else "prepare"

    def _commit_prepare(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Write the packs; then, where that is possible, freeze while the job is declared."""
        if self._has(Rule.PACKS_FIRST):
            yield self._go(shared, process, "pack", after="begin")
        else:
            yield self._go(shared, process, "begin")

    def _commit_begin(self, shared: Shared, process: Process) -> Iterator[Step]:
        freezes = self._has(Rule.FREEZE) and not self._is_flat
        yield self._go(shared, process, "declare", after="freeze" if freezes else "compare")
        if freezes:
            yield self._go(shared, process, "freeze", after="declare")

    def _commit_declare(self, shared: Shared, process: Process) -> Iterator[Step]:
        after = process.after or "compare"
        yield from self._changed(shared, process._replace(after=""), Phase.DECLARED, after)

    def _commit_freeze(self, shared: Shared, process: Process) -> Iterator[Step]:
        here = shared.here
        if here is not None and here.saved is not None:
            here = here._replace(frozen=here.saved, saved=None)
            shared = shared._replace(here=here)
        yield self._go(shared, process, process.after or "compare", after="")

    def _commit_close(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Freeze the files of tasks: nothing more is written there by its path."""
        here = shared.here
        if here is not None and here.late is None:
            shared = shared._replace(here=here._replace(late=frozenset()))
        yield self._go(shared, process, "sources")

    # After the freeze.

    def _commit_compare(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List what is frozen, or on flat stores what is there; read again what differs from before."""
        own = self._own(shared, process)
        if own is None or own.phase not in UNDECIDED:
            yield self._look(shared, process)
            return
        now = _current(own)
        if not self._has(Rule.LISTING):
            yield self._go(shared, process, self._after_compare(own))
            return
        before = process.loaded if process.has_messages else process.listed
        is_more = {one.task for one in now} != {one.task for one in before or ()}
        if process.has_messages and is_more and self._has(Rule.NO_MORE):
            yield from self._withdrawn(shared, process)
        elif now == before:
            yield self._go(shared, process, self._after_compare(own))
        elif process.has_messages and not is_more and Option.REFUSES in self.options:
            yield from self._withdrawn(shared, process)
        elif process.has_messages and is_more:
            yield self._go(shared, process, self._after_compare(own))
        else:
            again = process._replace(loaded=now, listed=now)
            if self._is_incomplete(again):
                yield from self._withdrawn(shared, again)
            elif self._is_flat:
                yield self._look(shared, process)
            else:
                after = self._after_compare(own)
                packs = self._has(Rule.PACKS_FIRST)
                yield self._go(shared, again, "pack" if packs else after, after=after if packs else "")

    def _after_compare(self, own: Job) -> str:
        if self._is_flat:
            return "record"
        late = Option.UNTOLD in self.options and self._has(Rule.UNSAVED)
        if late and not self._has(Rule.UNSAVED_FIRST):
            return "unsaved"
        closes = Option.FROZEN_TASKS in self.options
        return ("close" if closes else "sources") if self._has(Rule.AFTER_FREEZE) else "record"

    def _withdrawn(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Withdraw what the process may have declared, and stop."""
        for after, _, changed in self._changed(shared, process, Phase.OPEN, ""):
            yield after, self._told(after, process, "incomplete")[1], changed

    def _commit_sources(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the staged directories: each file is there as it was saved, and none more."""
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        wanted = files_of(process.loaded)
        tokens = {self.token(self.path((*one[:3], 0))) for one in process.loaded}
        counted = {one for one in own.staged if self.token(one[0]) in tokens}
        is_more = self._has(Rule.TOKENS) and counted - wanted
        after = "record" if self._has(Rule.AFTER_FREEZE) and not self._is_flat else "prepare"
        if self._has(Rule.SOURCES) and (is_more or wanted - own.staged):
            yield from self._withdrawn(shared, process)
        else:
            yield self._go(shared, process, after)

    def _commit_record(self, shared: Shared, process: Process) -> Iterator[Step]:
        names = frozenset(self._name(process, one) for one in process.loaded)
        if not self._has(Rule.REPLACED) or not self._has(Rule.OWN_PACKS):
            names |= process.packed
        entries, own = files_of(process.loaded), self._own(shared, process)
        if own is not None:
            named = (content for name, content in own.packs if name in names)
            entries = entries.union(*(one for one in named if one is not None))
        beside = {path for path, _ in own.staged - entries} if own else set()
        record = Record(names, frozenset(beside))
        known = process._replace(entries=entries, after="move")
        after = "open" if self._has(Rule.PACKS_FIRST) else "pack"
        yield from self._changed(shared, known, Phase.RECORDED, after, record=record)

    # Publish it.

    def _commit_open(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Read the packs that the record names."""
        own = self._own(shared, process)
        if own is None or own.record is None:
            yield self._look(shared, process)
            return
        packs = dict(own.packs)
        found = [packs.get(name) for name in own.record.packs]
        if None in found:
            yield self._told(shared, process, "stuck")
            return
        entries = frozenset[File]().union(*(one for one in found if one is not None))
        if not self._has(Rule.FROM_PACKS):
            entries = files_of(_current(own))
        yield self._go(shared, process, "move", entries=entries, at=0, loaded=frozenset(), after="")

    def _commit_move(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put one file in place, or see that it is there."""
        wanted = sorted(process.entries)
        if process.at >= len(wanted):
            known = process._replace(entries=frozenset(), packed=frozenset())
            yield from self._changed(shared, known, Phase.COMMITTED, "mark")
            return
        path, rows = wanted[process.at]
        there, staged = dict(shared.visible), dict(shared.here.staged) if shared.here else {}
        onward = process._replace(at=process.at + 1)
        if path in there:
            is_done = there[path] == rows
            yield (shared, onward, -1) if is_done else self._told(shared, process, "conflict")
        elif path in staged and shared.here is not None:
            moved = (path, staged[path])
            here = shared.here._replace(staged=shared.here.staged - {moved})
            shared = shared._replace(here=here, visible=shared.visible | {moved})
            yield (shared, onward, -1) if moved[1] == rows else self._told(shared, process, "lost")
        elif process.is_current and self._own(shared, process):
            yield self._told(shared, process, "lost")
        else:
            yield self._look(shared, process)

    def _commit_mark(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._go(shared._replace(success=process.job), process, "clean")


def _current(own: Job) -> frozenset[Manifest]:
    """The manifests that are listed now."""
    return own.frozen if own.frozen is not None else own.saved or frozenset()
