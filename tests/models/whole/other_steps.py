"""The requests of an undo, of tasks and set-ups, and of others that write where the job writes."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.whole.steps import TASKS, Steps, named, parent, renamed, with_staging
from tests.models.whole.world import (
    OTHERS,
    Entry,
    File,
    Job,
    Manifest,
    Process,
    Rule,
    Shared,
    Staging,
    Step,
)


class OtherSteps(Steps):
    """All but the steps of a commit."""

    # Give the job up.

    def _undo_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        known, phase = self._found(shared, process)
        match phase:
            case None:
                yield self._end(shared, process)
            case Phase.OPEN | Phase.DECLARED:
                yield from self._changed(shared, known, Phase.ABORTED, "clean")
            case Phase.RECORDED:
                changes = {"place": f"{known.writer}{known.taken}"}
                taken = known._replace(taken=known.taken + 1)
                yield from self._changed(shared, taken, Phase.UNDOING, self._first_of_undo, **changes)
            case Phase.UNDOING:
                yield self._go(shared, known, self._first_of_undo)
            case Phase.ABORTED:
                yield self._go(shared, known, "clean")
            case _:
                yield self._told(shared, known, "refused")

    @property
    def _first_of_undo(self) -> str:
        return "list" if self._freezes and self._has(Rule.UNDO_FIRST) else "take"

    def _undoing(self, shared: Shared, process: Process) -> Job | None:
        own = self._own(shared, process)
        return own if own and own.phase is Phase.UNDOING and process.is_current else None

    def _undo_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the stagings, in an order; one that is renamed meanwhile may not be seen."""
        own = self._undoing(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        every = not self._has(Rule.UNDO_OF_MARK)
        seen = frozenset(one.name for one in own.stagings if every or self._counts(one, process.job))
        if not self._has(Rule.UNDO_ALL) and own.record is not None:
            seen &= {own.record.staging}
        for (names, half), is_last in self._listed(process, seen):
            yield self._go(shared, process, "sweep" if is_last else "list", seen=names, after=half)

    def _undo_sweep(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the next staging that was listed; list again until the one that counts is taken."""
        own = self._undoing(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        if process.seen:
            name = min(process.seen)
            found = named(shared, name)
            if found is not None:
                shared = with_staging(shared, found, None)
                here = shared.here
                assert here is not None
                shared = shared._replace(here=here._replace(undone=here.undone | {found}))
            yield self._go(shared, process, "sweep", seen=process.seen - {name})
            return
        has_marked = any(self._counts(one, process.job) for one in own.undone)
        if self._has(Rule.UNDO_MARKED) and not has_marked:
            yield self._go(shared, process, "list")
        else:
            yield self._go(shared, process, "take" if self._has(Rule.UNDO_FIRST) else "empty")

    def _undo_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take one file back; where nothing is frozen it is taken from its source first."""
        own = self._undoing(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        wanted = sorted(own.record.entries) if own.record else []
        if process.at >= len(wanted):
            last = "empty" if self._has(Rule.UNDO_FIRST) or not self._freezes else "list"
            yield self._go(shared, process, last, at=0)
            return
        entry = wanted[process.at]
        onward = self._go(shared, process, "take", at=process.at + 1, found="")[1]
        if not self._freezes and process.found != "taken":
            source = named(shared, TASKS)
            if source is not None:
                name = (entry.key, entry.file.name)
                rest = frozenset(one for one in source.files if (one[0], one[1].name) != name)
                shared = with_staging(shared, source, source._replace(files=rest))
            yield self._go(shared, process, "take", found="taken")
            return
        taken = {
            (key, file.name)
            for one in own.undone
            if self._counts(one, process.job) or not self._has(Rule.UNDO_OF_MARK)
            for key, file in one.files
        }
        held = self._held(shared, entry.place)
        if (entry.key, entry.file.name) in taken:
            yield shared, onward, -1
            return
        if not self._has(Rule.UNDO_BY_FILE):
            gone = held
        elif not self._has(Rule.UNDO_PROVEN):
            gone = frozenset(one for one in held if one.name == entry.file.name)
        else:
            gone = held & {entry.file}
        visible = shared.visible - {(entry.place, file) for file in gone}
        yield shared._replace(visible=visible), onward, -1

    def _undo_empty(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Remove the directories that the commit has made, if they are empty."""
        own = self._undoing(shared, process)
        if own is None or own.record is None:
            yield self._look(shared, process)
            return
        places = own.record.absent
        if not self._has(Rule.UNDO_ABSENT):
            places = frozenset(one.place for one in own.record.entries)
        for place in sorted(places, reverse=True):
            held = self._held(shared, place)
            inner = any(parent(one) == place for one in shared.there)
            if not inner and (not held or not self._has(Rule.UNDO_EMPTY)):
                visible = shared.visible - {(place, file) for file in held}
                shared = shared._replace(there=shared.there - {place}, visible=visible)
        yield from self._changed(shared, process, Phase.ABORTED, "clean")

    def _entries(self, process: Process) -> list[Entry]:
        """What an attempt writes; no two jobs give files one name."""
        return self.layout.entries(process.task, process.attempt + 20 * process.job)

    # Tasks. Any of them writes by path, in whatever job has that directory by then.

    def _task_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        if self._own(shared, process):
            yield self._go(shared, process, "write")

    def _task_write(self, shared: Shared, process: Process) -> Iterator[Step]:
        entries = self._entries(process)
        entry = entries[process.at]
        is_last = process.at + 1 == len(entries)
        after = self._written(shared, entry.key, entry.file)
        if is_last and process.place == "dies":
            yield self._told(after, process, "dead")
        else:
            yield self._go(after, process, "list" if is_last else "write", at=process.at + 1)

    def _task_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        entries = self._entries(process)
        source = named(shared, TASKS)
        files = source.files if source else frozenset[tuple[str, File]]()
        if all((one.key, one.file) in files for one in entries):
            yield self._go(shared, process, "save")
        else:
            yield self._told(shared, process, "failed")

    def _task_save(self, shared: Shared, process: Process) -> Iterator[Step]:
        here = shared.here
        if here is None or here.saved is None:
            yield self._told(shared, process, "failed")
            return
        entries = frozenset(self._entries(process))
        manifest = Manifest(process.job, process.task, process.attempt, entries)
        saved = frozenset({*(one for one in here.saved if one.task != process.task), manifest})
        yield self._told(shared._replace(here=here._replace(saved=saved)), process, "saved")

    def _rewriter_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Write a file of an attempt that may count once more, by its path, with other content."""
        entry = self._entries(process)[0]
        file = entry.file._replace(content=1)
        yield self._told(self._written(shared, entry.key, file), process, "rewritten")

    def _copier_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Write the same file once more, by its path."""
        entry = self._entries(process)[0]
        yield self._told(self._written(shared, entry.key, entry.file), process, "rewritten")

    def _odd_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Make a directory among the files of a source."""
        entry = self._entries(process)[0]
        odd = File(process.task, process.attempt + 5, -1)
        yield self._told(self._written(shared, entry.key, odd), process, "made")

    # Set-ups.

    def _setup_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Make the mark, then the state; where a job is by then, the state is refused."""
        if self._has(Rule.MARK_FIRST):
            here = shared.here or Job(process.job, Phase.ABORTED, place="unclear")
            shared = self._marked(shared._replace(here=here), process)
            yield self._go(shared, process, "state")
        elif shared.here is not None:
            yield self._told(shared, process, "refused")
        else:
            yield self._go(shared._replace(here=Job(process.job)), process, "state")

    def _marked(self, shared: Shared, process: Process) -> Shared:
        found = named(shared, TASKS)
        after = found or Staging(TASKS)
        return with_staging(shared, found, after._replace(marks=after.marks | {process.job}))

    def _setup_state(self, shared: Shared, process: Process) -> Iterator[Step]:
        here = shared.here
        if here is None:
            yield self._told(shared, process, "failed")
        elif not self._has(Rule.MARK_FIRST):
            yield self._told(self._marked(shared, process), process, "set up")
        elif here.place != "unclear":
            yield self._told(shared, process, "refused")
        else:
            job = here._replace(number=process.job, phase=Phase.OPEN, place="")
            yield self._told(shared._replace(here=job, success=-1), process, "set up")

    # Others.

    def _rival_files(self, process: Process) -> list[File]:
        return [File(OTHERS, process.attempt, piece) for piece in range(self.layout.pieces)]

    def _rival_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Add files to a place: whole if nothing is there, else one by one."""
        yield self._go(shared, process, "make")
        if process.place not in shared.there and parent(process.place) in shared.there:
            moved = {(process.place, file) for file in self._rival_files(process)}
            shared = shared._replace(
                there=shared.there | {process.place}, visible=shared.visible | moved
            )
            yield self._told(shared, process, "done")

    def _rival_make(self, shared: Shared, process: Process) -> Iterator[Step]:
        made = shared.there | {process.place, parent(process.place)}
        yield self._go(shared._replace(there=made), process, "put")

    def _rival_put(self, shared: Shared, process: Process) -> Iterator[Step]:
        files = self._rival_files(process)
        if process.at == len(files):
            yield self._told(shared, process, "done")
        elif process.place not in shared.there:
            yield self._go(shared, process, "make")
        else:
            visible = shared.visible | {(process.place, files[process.at])}
            yield self._go(shared._replace(visible=visible), process, "put", at=process.at + 1)
            yield self._go(shared, process, "back")

    def _rival_back(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the files back, and the directory if it is empty."""
        files = {(process.place, file) for file in self._rival_files(process)}
        shared = shared._replace(visible=shared.visible - files)
        if not self._held(shared, process.place) and not any(
            parent(one) == process.place for one in shared.there
        ):
            shared = shared._replace(there=shared.there - {process.place})
        yield self._told(shared, process, "given up")

    def _stranger_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Write a namesake of a file of the job."""
        entry = self._entries(process)[0]
        if entry.file.name not in {file.name for file in self._held(shared, entry.place)}:
            file = entry.file._replace(content=OTHERS)
            there = shared.there | {entry.place, parent(entry.place)}
            shared = shared._replace(there=there, visible=shared.visible | {(entry.place, file)})
            yield self._told(shared, process, "done")
        else:
            yield self._told(shared, process, "failed")

    def _dropper_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Remove a place with all that it holds."""
        held = {(process.place, file) for file in self._held(shared, process.place)}
        shared = shared._replace(
            there=shared.there - {process.place},
            visible=shared.visible - held,
            dropped=shared.dropped | held,
        )
        yield self._told(shared, process, "dropped")

    def _ghost_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """A request that was not answered is done."""
        for one in shared.flying:
            if one.key:
                after = self._moved_whole(shared, one.staging, one.key, one.place)[0]
            else:
                after = renamed(shared, one.staging, one.place) or shared
            yield self._told(after._replace(flying=shared.flying - {one}), process, "done")

    # Another job that replaces what is in "a".

    def _over_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._go(shared._replace(over="declared"), process, "around")

    def _over_around(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for the job, give way to it, and only then list."""
        in_the_way = (Phase.DECLARED, Phase.RECORDED, Phase.SEALED)
        if not self._has(Rule.LOOK_FIRST) and not process.after:
            known = process._replace(old=self._in_a(shared))
            yield self._go(shared, known, "around", after="listed")
        elif shared.here is not None and shared.here.phase in in_the_way:
            yield self._told(shared._replace(over=""), process, "busy")
        else:
            yield self._go(shared, process, "list" if self._has(Rule.LOOK_FIRST) else "put")

    def _over_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._go(shared, process._replace(old=self._in_a(shared)), "put")

    def _over_put(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put the new files in place and remove the old ones, unless the declaration was withdrawn."""
        visible = (shared.visible - process.old) | {("a", File(OTHERS, 1))}
        after = shared._replace(over="done", visible=visible, there=shared.there | {"a"})
        yield self._told(after, process, "over")

    def _in_a(self, shared: Shared) -> frozenset[tuple[str, File]]:
        return frozenset(one for one in shared.visible if one[0] == "a")
