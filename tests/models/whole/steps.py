"""What all processes do with a job whose files may move whole, and what the store does."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import Phase
from tests.models.files.steps import Steps as StepsOfFiles
from tests.models.whole.world import (
    OTHERS,
    Entry,
    File,
    Job,
    Layout,
    Option,
    Process,
    Request,
    Rule,
    Shared,
    Staging,
    Step,
)

TASKS = "tasks"
_KNOWN = ("does", "job", "writer", "task", "attempt", "place", "is_named", "taken")


class Steps(StepsOfFiles):
    """The requests of processes, but for the rules that are left out."""

    def __init__(
        self,
        layout: Layout,
        options: frozenset[Option] = frozenset(),
        without: frozenset[Rule] = frozenset(),
    ) -> None:
        super().__init__(layout, options, without)
        self.layout = layout

    @property
    def _freezes(self) -> bool:
        """Whether the store can freeze the files of tasks, and move directories."""
        by_handle = Option.HANDLES in self.options and self._has(Rule.NO_HANDLES)
        return not by_handle and Option.UNMARKED not in self.options and self._has(Rule.FREEZE)

    @property
    def _moves_whole(self) -> bool:
        return not self.options & {Option.HANDLES, Option.UNMARKED}

    def _look(self, shared: Shared, process: Process) -> Step:
        """Begin again, with nothing but what the tasks have told."""
        kept = {name: getattr(process, name) for name in _KNOWN}
        loaded = process.loaded if process.is_named else frozenset()
        return shared, Process(**kept, loaded=loaded), -1

    def _told(self, shared: Shared, process: Process, told: str) -> Step:
        kept = {name: getattr(process, name) for name in ("does", "job", "task", "attempt", "place")}
        return shared, Process(**kept, step="", told=told), -1

    # Stagings.

    def _counts(self, staging: Staging, job: int) -> bool:
        """Whether the files there are those of the tasks."""
        if Option.UNMARKED in self.options:
            return staging.name == TASKS
        if not self._has(Rule.MARK):
            return True
        return bool(staging.marks) if not self._has(Rule.STAMPED) else job in staging.marks

    def _named_anew(self, shared: Shared, process: Process, found: str) -> Iterator[Step]:
        """Request a new name for a staging; the process does not know whether there was an answer."""
        nonce, known = f"{process.writer}{process.taken}", process._replace(taken=process.taken + 1)
        if named(shared, found) is None:
            yield shared, process._replace(staging="gone"), -1
            return
        if Option.UNANSWERED in self.options and not shared.flying:
            flying = frozenset({Request(found, "", nonce)})
            again = known if self._has(Rule.NEW_NONCE) else process
            yield shared._replace(flying=flying), again._replace(staging="gone"), -1
        after = renamed(shared, found, nonce)
        yield after or shared, known._replace(staging=nonce if after else "gone"), -1

    def _listed(
        self, process: Process, names: frozenset[str]
    ) -> Iterator[tuple[tuple[frozenset[str], str], bool]]:
        """What a listing of stagings shows, and whether it has ended: where it may be torn, it is read
        in two halves, in one order or the other."""
        if Option.TORN not in self.options:
            yield (names, ""), True
        elif not process.after:
            for half in "ab":
                yield (frozenset(one for one in names if _half(one) == half), half), False
        else:
            yield (process.seen | {one for one in names if _half(one) != process.after}, ""), True

    # Directories of the output.

    def _held(self, shared: Shared, place: str) -> frozenset[File]:
        return frozenset(file for where, file in shared.visible if where == place)

    def _moved_whole(self, shared: Shared, staging: str, key: str, place: str) -> tuple[Shared, str]:
        """What the store does with a request to move a source whole, and what it answers."""
        source = named(shared, staging)
        moved = files_in(source, key)
        is_there, held = place in shared.there, self._held(shared, place)
        if not moved or parent(place) not in shared.there:
            return shared, "missing"
        if Option.REFUSES in self.options:
            return shared, "refused"
        if is_there and not self._has(Rule.NEVER_INTO):
            place, held = f"{place}/{key}", frozenset()
        elif is_there and (held or self._has(Rule.NEVER_EMPTY)) and self._has(Rule.NEVER_OVER):
            return shared, "exists"
        visible = shared.visible - {(place, file) for file in held}
        visible |= {(place, file) for file in moved}
        rest = source.files - {(key, file) for file in moved}
        shared = with_staging(shared, source, source._replace(files=rest))
        return shared._replace(visible=visible, there=shared.there | {place}), "done"

    def _written(self, shared: Shared, key: str, file: File) -> Shared:
        """Write a file of a task, by its path; its parents are made."""
        if shared.here is None:
            return shared
        source = named(shared, TASKS)
        after = source or Staging(TASKS)
        files = {one for one in after.files if one != (key, one[1]) or one[1].name != file.name}
        files = {one for one in files if (one[0], one[1].name) != (key, file.name)} | {(key, file)}
        return with_staging(shared, source, after._replace(files=frozenset(files)))

    def _is_own(self, file: File) -> bool:
        return file.task != OTHERS

    def _phase(self, shared: Shared, process: Process) -> Phase | None:
        own = self._own(shared, process)
        return own.phase if own else None


def named(shared: Shared, name: str) -> Staging | None:
    """The staging of this name."""
    stagings = shared.here.stagings if shared.here else ()
    return next((one for one in stagings if one.name == name), None)


def with_staging(shared: Shared, before: Staging | None, after: Staging | None) -> Shared:
    """The store once a staging is another, has come or gone."""
    assert shared.here is not None
    stagings = (shared.here.stagings - {before}) | ({after} if after else set())
    return shared._replace(here=shared.here._replace(stagings=stagings))


def renamed(shared: Shared, name: str, other: str) -> Shared | None:
    """The store once a staging has another name; None if it has not that name, or the other is taken."""
    found = named(shared, name)
    if found is None or named(shared, other):
        return None
    return with_staging(shared, found, found._replace(name=other))


def files_in(staging: Staging | None, key: str) -> frozenset[File]:
    return frozenset(file for where, file in staging.files if where == key) if staging else frozenset()


def parent(place: str) -> str:
    return place.rpartition("/")[0]


def entries_of(job: Job) -> frozenset[Entry]:
    return job.record.entries if job.record else frozenset()


def _half(name: str) -> str:
    return "a" if name < "l" else "b"
