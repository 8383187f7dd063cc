"""The requests of a committer up to the record: load, freeze, look, record; and those of a take-over."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.whole.steps import TASKS, Steps, entries_of, named
from tests.models.whole.world import (
    Entry,
    File,
    Job,
    Manifest,
    Option,
    Process,
    Record,
    Rule,
    Shared,
    Step,
)

_PATIENCE = 1
"""How many names for a staging a process uses, and begins again to commit a job that is open."""


class CommitSteps(Steps):
    """The steps of a driver, that knows what its tasks have saved, and of command lines."""

    # Load.

    def _commit_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        known, phase = self._found(shared, process)
        match phase:
            case None:
                yield self._end(shared, process)
            case Phase.OPEN if self._looks_first(shared) and known.is_named:
                yield self._go(shared, known, "sources", staging=TASKS)
            case Phase.OPEN if known.is_named:
                yield self._go(shared, known, "begin")
            case Phase.OPEN:
                yield self._go(shared, known, "load")
            case Phase.DECLARED:  # by one that is dead, or is taken for it; else this one gives up
                yield from self._changed(shared, known, Phase.OPEN, "look")
                yield self._told(shared, known, "busy")
            case Phase.RECORDED | Phase.SEALED if shared.here:
                known = known._replace(loaded=frozenset(), entries=entries_of(shared.here))
                yield self._go(shared, known, "find" if self._freezes else "sources", staging=TASKS)
            case Phase.COMMITTED:
                yield self._go(shared, known, "mark")
            case _:
                yield self._told(shared, known, "refused")

    def _looks_first(self, shared: Shared) -> bool:
        return not self._has(Rule.LOOK_AFTER) and named(shared, TASKS) is not None

    def _commit_load(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        known = process._replace(loaded=_current(own), beside=self._unsaved(own))
        if self._is_incomplete(known):
            yield self._told(shared, process, "incomplete")
        elif self._looks_first(shared):
            yield self._go(shared, known, "sources", staging=TASKS)
        elif Option.UNTOLD in self.options and self._has(Rule.UNSAVED):
            yield self._go(shared, known, "unsaved")
        elif not self._has(Rule.DECLARED) and own.frozen is not None and self._freezes:
            yield self._go(shared, known, "find")
        else:
            yield self._go(shared, known, "begin")

    def _is_incomplete(self, process: Process) -> bool:
        every = process.loaded
        is_foreign = any(one.job != process.job for one in every)
        is_known = Option.UNTOLD not in self.options
        return is_foreign or not every or (is_known and len(every) != len(self.layout.tasks))

    def _commit_unsaved(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for files of tasks that have not saved."""
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        names = frozenset({TASKS}) if not self._has(Rule.ANY_STAGING) else None
        if self._unsaved(own, names) - {one.task for one in process.loaded}:
            yield self._told(shared, process, "incomplete")
        else:
            yield self._go(shared, process, "begin")

    def _unsaved(self, own: Job, names: frozenset[str] | None = None) -> frozenset[int]:
        """The tasks with files in the staging that counts, but no manifest."""
        listed = [
            one
            for one in own.stagings
            if self._counts(one, own.number) and (names is None or one.name in names)
        ]
        saved = {one.task for one in _current(own)}
        return frozenset(file.task for one in listed for _, file in one.files) - saved

    # Freeze.

    def _commit_begin(self, shared: Shared, process: Process) -> Iterator[Step]:
        if process.taken > _PATIENCE:
            yield self._told(shared, process, "busy")
            return
        pending = {"manifests", "declare"}
        at_once = process.is_named or not self._has(Rule.MANIFESTS_FIRST)
        if at_once and self._freezes and not process.staging:
            pending.add("tasks")
        yield self._go(shared, process, "at_once", pending=frozenset(pending))

    def _commit_at_once(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Make the requests that are made beside each other, in any order."""
        for one in sorted(process.pending, reverse=True):
            left = process._replace(pending=process.pending - {one})
            if one == "tasks" and "manifests" in process.pending and self._has(Rule.MANIFESTS_FIRST):
                continue
            if one == "declare":
                left = left._replace(has_declared=True)
                yield from self._changed(shared, left, Phase.DECLARED, "at_once")
            elif one == "tasks":
                yield from self._named_anew(shared, left, TASKS)
            else:
                yield self._go(_with_manifests_frozen(shared), left, "at_once")
        if not process.pending:
            yield self._go(shared, process, "compare")

    def _commit_compare(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the frozen manifests."""
        own = self._own(shared, process)
        if own is None or not process.is_current:
            yield self._look(shared, process)
            return
        listed = _current(own)
        is_other = {one.task for one in listed} != {one.task for one in process.loaded}
        if is_other and (process.is_named or self._is_incomplete(process._replace(loaded=listed))):
            yield from self._withdrawn(shared, process)
            return
        # A driver takes another manifest of the same size for the one of its message.
        known = process if process.is_named else process._replace(loaded=listed)
        if not self._freezes:
            yield self._go(shared, known, self._first_look(known), staging=TASKS)
        elif known.staging == "gone":
            yield self._go(shared, known, "find")
        elif known.staging:
            yield self._go(shared, known, self._first_look(known))
        else:
            yield self._go(shared, known, "tasks")

    def _commit_tasks(self, shared: Shared, process: Process) -> Iterator[Step]:
        for after, known, _ in self._named_anew(shared, process, TASKS):
            step = "find" if known.staging == "gone" else self._first_look(known)
            yield self._go(after, known, step)

    def _withdrawn(self, shared: Shared, process: Process, told: str = "incomplete") -> Iterator[Step]:
        """Withdraw what the process may have declared, and stop."""
        for after, known, changed in self._changed(shared, process, Phase.OPEN, ""):
            yield after, known if changed < 0 else self._told(after, process, told)[1], changed

    # Take over.

    def _commit_find(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Find the staging that counts; none is shown if it is renamed while it is looked for."""
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        counting = [one.name for one in own.stagings if self._counts(one, process.job)]
        for found, is_last in self._listed(process, frozenset(counting)):
            if not is_last:
                yield self._go(shared, process, "find", seen=found[0], after=found[1])
            elif not found[0] and not process.is_current:
                yield self._look(shared, process)
            elif not found[0]:
                yield self._told(shared, process, "busy" if Option.TORN in self.options else "stuck")
            for name in sorted(found[0]) if is_last else ():
                known = process._replace(seen=frozenset(), after="")
                if self._has(Rule.RENAMED):
                    yield self._go(shared, known, "take", found=name)
                else:
                    yield self._go(shared, known, self._after_take(process), staging=name)

    def _commit_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        is_decided = _is_recorded(process)
        if process.taken > (
            _PATIENCE + 4 if is_decided else _PATIENCE
        ):  # the patience of who commits an open job is over
            yield self._told(shared, process, "endless" if is_decided else "busy")
            return
        for after, known, _ in self._named_anew(shared, process, process.found):
            step = "find" if known.staging == "gone" else self._after_take(known)
            yield self._go(after, known, step, found="")

    def _after_take(self, process: Process) -> str:
        if _is_recorded(process):
            return "sources"
        return self._first_look(process) if self._has(Rule.DECLARED) or process.has_declared else "begin"

    # Look.

    def _first_look(self, process: Process) -> str:
        if process.entries:  # it has looked before the freeze
            return "record"
        looks = Option.REPLACES in self.options and self._has(Rule.LOOK_FIRST)
        return "around" if looks else "sources"

    @property
    def _after_sources(self) -> str:
        if Option.REPLACES in self.options and not self._has(Rule.LOOK_FIRST):
            return "around"
        return "record" if self._has(Rule.RECORDED) else "leftovers"

    def _commit_around(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for another job that replaces what this one replaces, and give way to it."""
        if shared.over == "declared":
            for after, _, changed in self._changed(shared, process, Phase.OPEN, ""):
                yield after, self._told(after, process, "busy")[1], changed
        else:
            yield self._go(shared, process, "sources" if self._has(Rule.LOOK_FIRST) else "record")

    def _commit_sources(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the sources, and the places; of a recorded job only the sources, and some may be gone."""
        own = self._own(shared, process)
        if own is None:
            yield self._look(shared, process)
            return
        source = named(shared, process.staging)
        is_recorded = _is_recorded(process)
        if source is None and is_recorded:
            yield from self._overtaken(shared, process)
            return
        if source is None and self._has(Rule.OWN_STAGING):
            yield self._look(shared, process)
            return
        if source is not None and not self._counts(source, process.job) and self._freezes:
            yield self._go(shared, process, "find")
            return
        entries = process.entries if is_recorded else _entries(process.loaded)
        files = source.files if source else frozenset[tuple[str, File]]()
        wanted = {(one.key, one.file) for one in entries}
        counted = {one.file[:2] for one in entries}
        # What no pack of the record names; or, without the rule, what this process does not know.
        extras = files - wanted
        if not self._has(Rule.BY_PACKS) and is_recorded:
            extras = files - {(one.key, one.file) for one in _entries(_current(own))}
        is_wrong = wanted - files or any(file[:2] in counted for _, file in files - wanted)
        if is_wrong and not is_recorded:
            yield from self._withdrawn(shared, process, "missing")
            return
        seen = frozenset[str]() if is_recorded else shared.there
        whole = self._whole(entries, files, seen)
        known = process._replace(
            entries=entries,
            whole=whole,
            extras=frozenset(one for one in extras if one[0] in whole and one[1].piece >= 0),
            absent=frozenset(one.place for one in entries) - shared.there,
            old=frozenset(
                one
                for one in shared.visible
                if Option.REPLACES in self.options and one[0] in {entry.place for entry in entries}
            ),
            at=0,
        )
        if is_recorded:
            yield self._go(shared, known._replace(loaded=frozenset()), "leftovers")
        else:
            is_first = not process.has_declared
            known = known._replace(staging="" if is_first else known.staging)
            yield self._go(shared, known, "begin" if is_first else self._after_sources)

    def _whole(
        self, entries: frozenset[Entry], files: frozenset[tuple[str, File]], seen: frozenset[str]
    ) -> frozenset[str]:
        """The sources that are to be moved whole."""
        if not self._moves_whole:
            return frozenset()
        return frozenset(
            key
            for key in {one.key for one in entries if not one.key.startswith("own")}
            if self._goes_whole(key, entries, files, seen)
        )

    def _goes_whole(
        self,
        key: str,
        entries: frozenset[Entry],
        files: frozenset[tuple[str, File]],
        seen: frozenset[str],
    ) -> bool:
        named_for = {one.file for one in entries if one.key == key}
        places = {one.place for one in entries if one.key == key}
        listed = {file for where, file in files if where == key}
        more = listed - named_for
        is_odd = self._has(Rule.EXCLUSIVE) and any(file.piece < 0 for file in more)
        others = {one.key for one in entries if one.place in places and one.key != key}
        own = {other for other in others if other.startswith("own")}
        shares = self._has(Rule.ONE_SOURCE) and others > own
        shares |= self._has(Rule.OWN_NAMES) and bool(own)
        too_many = len(more) >= len(named_for) + 1
        is_inner = any(one.place.startswith(f"{place}/") for one in entries for place in places)
        is_complete = named_for <= listed and len(places) == 1  # also what is gone, to be proved
        return is_complete and not (is_odd or shares or too_many or is_inner or places & seen)

    def _commit_record(self, shared: Shared, process: Process) -> Iterator[Step]:
        beside = process.beside - {one.file.task for one in process.entries}
        record = Record(process.entries, process.absent, process.old, beside, process.staging)
        after = "leftovers" if self._has(Rule.RECORDED) else "move"
        known = process._replace(loaded=frozenset())
        yield from self._changed(shared, known, Phase.RECORDED, after, record=record)


def _is_recorded(process: Process) -> bool:
    """Whether the process goes on with a job that it found recorded."""
    return bool(process.entries) and not process.loaded


def _with_manifests_frozen(shared: Shared) -> Shared:
    here = shared.here
    if here is None or here.saved is None:
        return shared
    return shared._replace(here=here._replace(frozen=here.saved, saved=None))


def _current(own: Job) -> frozenset[Manifest]:
    """The manifests that are listed now."""
    return own.frozen if own.frozen is not None else own.saved or frozenset()


def _entries(manifests: frozenset[Manifest]) -> frozenset[Entry]:
    return frozenset[Entry]().union(*(one.entries for one in manifests))
