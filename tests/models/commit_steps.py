"""The requests of a committer: decide the job, publish it, clean up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ray_committer.protocol.state import Phase
from tests.models.look_steps import LookSteps
from tests.models.world import (
    File,
    Job,
    Option,
    Place,
    Process,
    Record,
    Rule,
    Shared,
    Step,
    files,
    is_own,
    with_job,
)


class CommitSteps(LookSteps):
    """The steps of a commit, in their order."""

    def _commit_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        for known, phase in self._find(shared, process):
            match phase:
                case None:
                    yield self._end(shared, process)
                case Phase.OPEN:
                    yield self._go(shared, known, "load")
                case Phase.DECLARED:  # by one that is dead, or is taken for it; else this one gives up
                    found = self._advanced(shared, known, Phase.OPEN)
                    if found is not None:
                        yield found[0], self._look(found[0], known)[1], found[1]
                    yield self._told(shared, known, "busy")
                case Phase.RECORDED:
                    yield self._go(shared, known, "move")
                case Phase.SEALED:
                    yield self._go(shared, known, "remove")
                case Phase.COMMITTED:
                    yield self._go(shared, known, "mark")
                case _:
                    yield self._told(shared, known, "refused")

    def _commit_load(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = self._own(shared, process)
        if job is None:
            yield self._look(shared, process)
            return
        loaded = job.frozen or job.manifests
        if loaded is None or (self._has(Rule.STAMP) and not is_own(process.job, loaded)):
            yield self._told(shared, process, "incomplete")
            return
        if Option.FLAT in self.options:
            shared = with_job(shared, process.job, job._replace(frozen=job.manifests))
            yield self._go(shared, process, "declare", loaded=job.manifests)
            return
        yield self._go(shared, process, "declare", loaded=loaded)
        if self._has(Rule.FREEZE):
            yield self._go(shared, process, "freeze", loaded=loaded)

    def _commit_freeze(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = self._own(shared, process)
        if job is not None and job.frozen is None:
            job = job._replace(frozen=job.manifests, manifests=None)
            shared = with_job(shared, process.job, job)
        has_declared = process.is_current and shared.jobs[process.job].phase is Phase.DECLARED
        after = self._after_declared() if has_declared else "declare"
        yield self._go(shared, process, after, after="" if has_declared else "frozen")

    def _commit_compare(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Compare what counts now, after the look at other jobs, with what was loaded; on flat stores it
        is where it was.
        """
        job = shared.jobs[process.job]
        is_flat = Option.FLAT in self.options
        now = job.manifests if is_flat else job.frozen
        is_compared = self._has(Rule.LIST_AGAIN) and (is_flat or self._has(Rule.FREEZE))
        if is_compared and now != process.loaded:
            yield from self._withdrawn(shared, process, "busy")
        else:
            yield self._go(shared, process, "attempts")

    def _commit_declare(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Declare the job; the manifests are frozen at the same time, so before or after it."""
        if not self._has(Rule.DECLARE_FIRST) and process.at == 0:
            yield self._go(shared, process, "see")
            return
        if not self._has(Rule.PAGE_AFTER) and process.at == 0 and self._pages_only(process):
            yield self._go(shared, process, "page")
            return
        freezes = self._has(Rule.FREEZE) and Option.FLAT not in self.options
        after = "freeze" if freezes and process.after != "frozen" else self._after_declared()
        yield from self._changed(shared, process._replace(after=""), Phase.DECLARED, after)

    def _after_declared(self) -> str:
        return "see" if self._has(Rule.DECLARE_FIRST) and self._has(Rule.LIST_AFTER) else "list"

    # Other attempts, and the record.

    def _commit_attempts(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Give way to a newer attempt, and abort the older ones."""
        others = self.other_attempts(process.job)
        if not others:
            yield from self._commit_record(shared, process)
            return
        if process.at == 0 and self._is_refused_by_attempts(shared, process.job):
            yield from self._withdrawn(shared, process, "refused")
            return
        mine = self.plans[process.job].attempt
        older = [one for one in others if self.plans[one].attempt < mine]
        found = self._abort_next(shared, older) if self._has(Rule.ABORT_OLDER) else None
        if found is not None:
            yield found[0], process._replace(at=1), found[1]
        elif any(self._is_decided(shared, one) for one in older):
            yield from self._withdrawn(shared, process, "refused")
        else:
            yield self._go(shared, process, "record", at=0)

    def _is_decided(self, shared: Shared, number: int) -> bool:
        job = shared.jobs[number]
        decided = (Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING)
        return self._has(Rule.ABORT_OLDER) and job.place is Place.HERE and job.phase in decided

    def _commit_record(self, shared: Shared, process: Process) -> Iterator[Step]:
        every = enumerate(shared.jobs)
        since = frozenset(number for number, job in every if job.phase is Phase.COMMITTED)
        record = Record(process.loaded or "", process.old, since)
        known = process._replace(loaded=None, old=frozenset())
        aside = frozenset[File]() if Option.ASIDE in self.options else None
        yield from self._changed(shared, known, Phase.RECORDED, "move", record=record, aside=aside)

    # Publish it.

    def _commit_move(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put one new file in place, or see that it is there; one that is to take an old one's place
        waits. The process has the record at hand, wherever the job is by now.
        """
        job = shared.jobs[process.job]
        if job.record is None:
            yield self._look(shared, process)
            return
        wanted = files(process.job, self.plans[process.job], job.record.manifests)
        held = self._held(process.job, job) if self._has(Rule.SEAL_NAMESAKES) else set()
        wanted = [file for file in wanted if file not in held]
        if process.at >= len(wanted):
            phase = Phase.SEALED if job.record.old else Phase.COMMITTED
            after = "remove" if job.record.old else "mark"
            yield from self._changed(shared, process, phase, after)
            return
        if not self._has(Rule.FREEZE) and job.manifests not in (job.record.manifests, None):
            yield self._told(shared, process, "stuck")  # a manifest is not the one of the record
            return
        for placed, known in self._placed(shared, process, job, wanted[process.at]):
            if not self._has(Rule.SEAL) and known.told is None:
                placed = self._show(placed, placed.visible - job.record.old)
            yield placed, known, -1

    def _placed(
        self, shared: Shared, process: Process, job: Job, file: File
    ) -> Iterator[tuple[Shared, Process]]:
        """The file in place, where nothing is but what the record says that it replaces."""
        old = job.record.old if job.record else frozenset()
        there = {one for one in shared.visible if one[:2] == file[:2]}
        onward = process._replace(at=process.at + 1)
        if file in there:
            yield shared, onward
        elif job.place is not Place.HERE or file in job.taken | job.moved:
            if process.is_current and job.place is Place.HERE:
                yield self._told(shared, process, "lost")[:2]
            else:
                yield self._look(shared, process)[:2]
        elif there - old:
            yield self._told(shared, process, "conflict")[:2]
        else:
            shared = with_job(shared, process.job, job._replace(moved=job.moved | {file}))
            yield self._show(shared, (shared.visible - there) | {file}), onward

    def _held(self, number: int, job: Job) -> set[File]:
        """The new files that are to take the place of old ones of their names."""
        if job.record is None:
            return set()
        names = {file[:2] for file in job.record.old}
        wanted = files(number, self.plans[number], job.record.manifests)
        return {file for file in wanted if file[:2] in names}

    def _commit_remove(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Let one old file go: a new one takes its place, or it is deleted."""
        job = shared.jobs[process.job]
        if job.record is None:
            yield self._look(shared, process)
            return
        held = sorted(self._held(process.job, job))
        names = {file[:2] for file in held}
        old = sorted(file for file in job.record.old if file[:2] not in names)
        if process.at < len(held):
            for after, known in self._placed(shared, process, job, held[process.at]):
                yield after, known, -1
        elif Option.ASIDE in self.options:
            yield from self._set_aside(shared, process, job, old[process.at - len(held) :])
        elif process.at < len(held) + len(old):
            gone = self._deletes(shared, old[process.at - len(held)])
            after = self._show(shared, shared.visible - gone)
            yield self._go(after, process, "remove", at=process.at + 1)
        else:
            yield from self._changed(shared, process, Phase.COMMITTED, "mark")

    def _set_aside(
        self, shared: Shared, process: Process, job: Job, old: Sequence[File]
    ) -> Iterator[Step]:
        """Look at one old file, before it is renamed; or at its end, take what is aside away."""
        if process.at == 0 and job.aside is None and not self._has(Rule.ASIDE_ONCE):
            job = job._replace(aside=frozenset())
            shared = with_job(shared, process.job, job)
        if not old:
            yield self._go(shared, process, "away", at=0)
        elif old[0] in shared.visible:
            yield self._go(shared, process._replace(old=frozenset(old[:1])), "aside")
        else:
            yield self._go(shared, process, "remove", at=process.at + 1)

    def _commit_aside(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Rename what has the name of an old file by now, if the directory aside is there."""
        job, (file,) = shared.jobs[process.job], process.old
        there = frozenset(one for one in shared.visible if one[:2] == file[:2])
        onward = process._replace(old=frozenset())
        if job.place is Place.HERE and job.aside is not None:
            shared = with_job(shared, process.job, job._replace(aside=job.aside | there))
            shared = self._show(shared, shared.visible - there)
            yield self._go(shared, onward, "remove", at=process.at + 1)
        elif file not in shared.visible:
            yield self._go(shared, onward, "remove", at=process.at + 1)
        elif not self._has(Rule.NOT_IN_PLACE):
            yield self._go(shared, process, "delete")
        elif process.is_current and job.place is Place.HERE:
            yield self._told(shared, onward, "left")
        else:
            yield self._look(shared, onward)

    def _commit_delete(self, shared: Shared, process: Process) -> Iterator[Step]:
        names = {file[:2] for file in process.old}
        there = {one for one in shared.visible if one[:2] in names}
        after = self._show(shared, shared.visible - there)
        yield self._go(after, process._replace(old=frozenset()), "remove", at=process.at + 1)

    def _commit_away(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take what is aside away, so that who sleeps puts nothing there any more."""
        if self._has(Rule.AWAY_BEFORE_COMMITTED):
            shared = self._taken_away(shared, process.job)
        yield self._go(shared, process, "strangers")

    def _commit_strangers(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Move back what is in the directory that is not an old file of the record."""
        job = shared.jobs[process.job]
        away, old = job.away or frozenset(), job.record.old if job.record else frozenset()
        if self._has(Rule.COMPARE_ASIDE) and job.place is Place.HERE:
            names = {file[:2] for file in shared.visible}
            back = {file for file in away - old if file[:2] not in names}
            shared = with_job(shared, process.job, job._replace(away=away - back))
            shared = self._show(shared, shared.visible | back)
        if not self._has(Rule.KEPT_UNTIL_COMMITTED) and job.place is Place.HERE:
            job = shared.jobs[process.job]._replace(away=frozenset())
            shared = with_job(shared, process.job, job)
        yield from self._changed(shared, process, Phase.COMMITTED, "mark")

    def _deletes(self, shared: Shared, file: File) -> set[File]:
        by_version = self._has(Rule.DELETE_VERSION)
        return {one for one in shared.visible if one == file or (not by_version and one[:2] == file[:2])}

    def _commit_mark(self, shared: Shared, process: Process) -> Iterator[Step]:
        after = (
            "others" if self.other_attempts(process.job) and self._has(Rule.ABORT_OTHERS) else "clean"
        )
        yield self._go(shared._replace(success=process.job), process, after, at=0)

    def _commit_others(self, shared: Shared, process: Process) -> Iterator[Step]:
        found = self._abort_next(shared, self.other_attempts(process.job))
        if found is not None:
            yield found[0], process, found[1]
        else:
            yield self._go(shared, process, "clean")
