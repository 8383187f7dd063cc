"""The requests of a committer after the record: delete leftovers, move directories and files."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.whole.steps import Steps, files_in, named, parent, with_staging
from tests.models.whole.world import Entry, Option, Process, Request, Rule, Shared, Staging, Step


class PublishSteps(Steps):
    """The steps of whoever has recorded the job, or goes on with it."""

    def _commit_leftovers(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Delete what lies beside the files of a source that goes whole, by name."""
        after = "move" if self._has(Rule.RECORDED) or self._is_recorded(shared, process) else "record"
        wanted = sorted(process.extras) if self._has(Rule.LEFTOVERS) else []
        if process.at >= len(wanted):
            yield self._go(shared, process, after, at=0, extras=frozenset())
            return
        source = named(shared, process.staging)
        if source is not None:
            rest = source._replace(files=source.files - {wanted[process.at]})
            shared = with_staging(shared, source, rest)
        yield self._go(shared, process, "leftovers", at=process.at + 1)

    def _is_recorded(self, shared: Shared, process: Process) -> bool:
        return self._phase(shared, process) in (Phase.RECORDED, Phase.SEALED)

    # Directories.

    def _commit_move(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Request that the next source is moved."""
        key = min(process.whole, default=None)
        if key is None:
            yield self._go(shared, process, "files", at=0)
            return
        if Option.RAY in self.options and process.is_named:
            every = frozenset(
                Request(process.staging, one, self._place(process, one)) for one in process.whole
            )
            yield self._go(shared._replace(flying=every), process, "gather")
            return
        place = self._place(process, key)
        if Option.UNANSWERED in self.options and not shared.flying:
            flying = frozenset({Request(process.staging, key, place)})
            yield self._go(shared._replace(flying=flying), process, "settle")
        after, answer = self._moved_whole(shared, process.staging, key, place)
        match answer:
            case "done":
                yield self._go_on(after, process, key)
            case "exists" if not self._has(Rule.THERE):
                yield self._told(shared, process, "stuck")
            case "refused" if not self._has(Rule.REFUSED):
                yield self._told(shared, process, "stuck")
            case "refused":
                yield self._by_file(shared, process, key)
            case _:
                yield self._go(shared, process, "settle", found=answer)

    def _commit_gather(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Wait for the answers of workers; some may come twice."""
        done = {key for key, answer in shared.answers if answer == "done"}
        came = {key for key, _ in shared.answers}
        if not self._has(Rule.ONCE) and len(shared.answers) >= len(process.whole):
            came = done = set(process.whole)
        if process.whole <= came:
            rest = frozenset(one for one in process.entries if one.key not in done)
            yield self._go(shared, process, "files", at=0, whole=frozenset(), entries=rest)
        elif self._own(shared, process) is None:
            yield self._look(shared, process)

    def _worker_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Begin with a request, that another worker may have begun with as well."""
        yield self._told(shared, process, "dead")
        for one in shared.flying:
            known = process._replace(staging=one.staging, found=one.key, place=one.place)
            yield self._go(shared, known, "move")

    def _worker_move(self, shared: Shared, process: Process) -> Iterator[Step]:
        key, place = process.found, process.place
        after, answer = self._moved_whole(shared, process.staging, key, place)
        if answer != "done":
            held = {file for file in self._held(shared, place) if self._is_own(file)}
            wanted = {one.file for one in self.layout.entries(0, 0) if one.key == key}
            answer = "done" if held == wanted else "by file"
        flying = frozenset(one for one in shared.flying if one.key != key)
        answers = (*shared.answers, (key, answer))
        after = after._replace(flying=flying, answers=tuple(sorted(answers)))
        yield self._go(after, Process("worker", at=process.at + 1), "look")

    def _place(self, process: Process, key: str) -> str:
        return next(one.place for one in process.entries if one.key == key)

    def _go_on(self, shared: Shared, process: Process, key: str) -> Step:
        """Count a source as in place."""
        rest = frozenset(one for one in process.entries if one.key != key)
        return self._go(shared, process, "move", whole=process.whole - {key}, entries=rest, found="")

    def _by_file(self, shared: Shared, process: Process, key: str) -> Step:
        staging = process.staging if self._has(Rule.FROM_FROZEN) else "tasks"
        return self._go(shared, process, "move", whole=process.whole - {key}, found="", staging=staging)

    def _commit_settle(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look at the source after a request that has failed, or has no answer."""
        key = min(process.whole)
        place = self._place(process, key)
        if not files_in(named(shared, process.staging), key):
            yield self._go(shared, process, "prove")
        elif process.found == "exists":
            yield self._by_file(shared, process, key)
        else:
            made = shared._replace(there=shared.there | {parent(place)})
            yield self._go(made, process, "move", found="")

    def _commit_prove(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the place: it holds the files of the source alone, or each file is looked for."""
        key = min(process.whole)
        place = self._place(process, key)
        wanted = {one.file for one in process.entries if one.key == key}
        held = self._held(shared, place)
        is_proved = held == wanted
        if not self._has(Rule.NO_PROOF):
            is_proved = place in shared.there
        if not self._has(Rule.BY_NAMES):
            is_proved = len(held) == len(wanted)
        if is_proved:
            yield self._go_on(shared, process, key)
        elif not self._has(Rule.AMONG_OTHERS):
            yield from self._missed(shared, process, "stuck")
        else:
            yield self._by_file(shared, process, key)

    # Files.

    def _commit_files(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put one file in place, or see that it is there."""
        wanted = sorted(process.entries)
        if process.at >= len(wanted):
            yield from self._committed(shared, process)
            return
        entry = wanted[process.at]
        onward = process._replace(at=process.at + 1)
        source = named(shared, process.staging)
        there = {file.name: file for file in self._held(shared, entry.place)}
        staged = {file.name: file for file in files_in(source, entry.key)}
        moved = staged.get(entry.file.name)
        if moved is None:
            is_there = there.get(entry.file.name) == entry.file
            if is_there or not self._has(Rule.NOT_DONE):
                yield shared, onward, -1
            else:
                yield from self._missed(shared, process, "lost")
        elif entry.place not in shared.there and self._has(Rule.MADE_AGAIN):
            made = shared.there | {entry.place, parent(entry.place)}
            yield self._go(shared._replace(there=made), process, "files")
        elif entry.place not in shared.there and entry.place in process.seen:
            yield self._told(shared, process, "stuck")
        elif entry.place not in shared.there:
            made = shared.there | {entry.place, parent(entry.place)}
            known = process._replace(seen=process.seen | {entry.place})
            yield self._go(shared._replace(there=made), known, "files")
        elif entry.file.name in there:
            yield self._told(shared, process, "conflict")
        elif Option.HANDLES in self.options:
            yield self._go(shared, process, "link")
        elif moved != entry.file:
            yield self._told(shared, process, "lost")
        else:
            yield self._linked(shared, source, entry), onward, -1

    def _linked(self, shared: Shared, source: Staging | None, entry: Entry) -> Shared:
        assert source is not None
        rest = source._replace(files=source.files - {(entry.key, entry.file)})
        after = with_staging(shared, source, rest)
        return after._replace(visible=after.visible | {(entry.place, entry.file)})

    def _commit_link(self, shared: Shared, process: Process) -> Iterator[Step]:
        """The directory of the source is open: it is that one, wherever it is by now."""
        entry = sorted(process.entries)[process.at]
        here = shared.here
        every = here.stagings | here.undone if here and here.number == process.job else ()
        source = next((one for one in every if process.job in one.marks), None)
        names = {file.name for file in self._held(shared, entry.place)}
        onward = self._go(shared, process, "files", at=process.at + 1)[1]
        if source is None or (entry.key, entry.file) not in source.files or entry.file.name in names:
            yield self._go(shared, process, "files")
        elif here is not None and source in here.undone:
            rest = source._replace(files=source.files - {(entry.key, entry.file)})
            undone = (here.undone - {source}) | {rest}
            visible = shared.visible | {(entry.place, entry.file)}
            yield shared._replace(here=here._replace(undone=undone), visible=visible), onward, -1
        else:
            yield self._linked(shared, source, entry), onward, -1

    def _missed(self, shared: Shared, process: Process, told: str) -> Iterator[Step]:
        """A file is neither at its source nor in place: it is lost, or the staging was taken over."""
        if named(shared, process.staging) is None and self._has(Rule.NOT_LOST):
            yield from self._overtaken(shared, process)
        elif self._own(shared, process) is None or not process.is_current:
            yield self._look(shared, process)
        else:
            yield self._told(shared, process, told)

    def _overtaken(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Wait for whoever has taken over, and give up."""
        if self._own(shared, process) is None or not process.is_current or not self._has(Rule.OVERTAKEN):
            yield self._look(shared, process)
        else:
            yield self._told(shared, process, "busy")

    def _committed(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        known = process._replace(entries=frozenset())
        if Option.REPLACES not in self.options or own is None or own.record is None:
            yield from self._changed(shared, known, Phase.COMMITTED, "mark")
        elif own.phase is Phase.RECORDED:
            yield from self._changed(shared, known, Phase.SEALED, "replace")
        else:
            yield self._go(shared, known, "replace")

    def _commit_replace(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        if own is None or own.record is None or own.phase is not Phase.SEALED:
            yield self._look(shared, process)
            return
        rest = shared._replace(visible=shared.visible - own.record.old)
        yield from self._changed(rest, process, Phase.COMMITTED, "mark")

    def _commit_mark(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._go(shared._replace(success=process.job), process, "clean")
