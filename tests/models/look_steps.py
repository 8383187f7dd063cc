"""The requests of a committer that looks for other jobs, and lists the partitions of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import IN_THE_WAY, Phase
from tests.models.steps import Steps
from tests.models.world import (
    Job,
    Option,
    Place,
    Process,
    Rule,
    Shared,
    Step,
    files,
    hinders,
    in_root,
)


class LookSteps(Steps):
    """The steps between the declaration and the record."""

    def _commit_see(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look at one other job; one in the way is waited for, or ends the commit."""
        mine = self.plans[process.job]
        others = [one for one, plan in enumerate(self.plans) if not mine.id or plan.id != mine.id]
        others = [one for one in others if one != process.job and hinders(mine, self.plans[one])]
        others = [one for one in others if mine.is_below or not self.plans[one].is_below]
        if process.at >= len(others) or not self._has(Rule.LOOK):
            yield self._seen_all(shared, process)
            return
        onward = self._go(shared, process, "see", at=process.at + 1)
        yield from self._met(shared, process, others[process.at], onward)

    def _met(self, shared: Shared, process: Process, number: int, onward: Step) -> Iterator[Step]:
        """Look at another job, and go `onward` if it is not in the way."""
        mine, other = self.plans[process.job], shared.jobs[number]
        if was_free(other, self.options):
            yield onward
        is_gone = other.place in (Place.GONE, Place.SWEPT) and self._has(Rule.LOOK_IN_GONE)
        if not (other.place is Place.HERE or is_gone) or other.phase not in IN_THE_WAY:
            yield onward
            return
        waits = mine.excludes and self._has(Rule.WAIT_FOR_SEALED)
        if other.phase is Phase.SEALED and not waits:  # an append, and its committer may be dead
            yield onward
        if other.phase is Phase.DECLARED and not is_gone:  # its committer may be dead
            withdrawn = self._change(shared, number, Phase.OPEN)
            yield withdrawn, process, number
        yield from self._withdrawn(shared, process, "conflict")
        stays = process._replace(shown=(), old=frozenset())
        yield self._go(shared, stays, "see", at=0)  # it stays declared, and looks again

    def _seen_all(self, shared: Shared, process: Process) -> Step:
        after = "list" if self._has(Rule.LIST_AFTER) else "compare"
        if not self._has(Rule.DECLARE_FIRST):
            return self._go(shared, process, "declare", at=1)
        return self._go(shared, process, after, at=0)

    def _commit_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List one of the partitions that are replaced, must be empty, or where jobs may be set up."""
        plan, roots = self.plans[process.job], self._listed(process)
        if self._pages_only(process) and not self._has(Rule.PAGE_AFTER):  # they were listed before
            roots = ()
            if process.at < len(process.shown):
                onward = self._go(shared, process, "list", at=process.at + 1)
                yield from self._met(shared, process, process.shown[process.at], onward)
                return
        if process.at >= len(roots):
            after = "compare" if self._has(Rule.LIST_AFTER) else "see"
            names = {file[:2] for file in shared.visible}
            wanted = files(process.job, plan, process.loaded or "")
            if not plan.excludes and names & {file[:2] for file in wanted}:
                yield from self._withdrawn(shared, process, "conflict")
            else:
                yield self._go(shared, process, after, at=0)
            return
        root = roots[process.at]
        asks = Option.PARTS in self.options and self._has(Rule.ONE_PAGE)
        if asks and process.after != "asked":
            yield self._go(shared, process, "ask")
            return
        there = self._jobs_in(shared, process, root) if self._has(Rule.ONE_PAGE) and not asks else []
        if there and self._has(Rule.PAGE_AGAIN):
            yield self._go(shared, process, "below", shown=(*process.shown, there[0]))
            return
        shown = [in_root(shared.visible, root) if plan.excludes else frozenset()]
        if Option.STALE_DATA in self.options:
            shown += [found for one, found in shared.before if one == root and found not in shown]
        for found in shown:
            if plan.wants_none and found:
                yield from self._withdrawn(shared, process, "conflict")
            else:
                known = process._replace(at=process.at + 1, old=process.old | found, after="")
                if there:
                    yield self._go(shared, known, "below", shown=(*known.shown, there[0]))
                else:
                    yield self._go(shared, known, "list" if self._has(Rule.ONE_PAGE) else "beside")

    def _commit_ask(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for jobs in a partition before its files are listed."""
        there = self._jobs_in(shared, process, self._listed(process)[process.at])
        if there:
            yield self._go(shared, process, "below", shown=(*process.shown, there[0]))
        else:
            yield self._go(shared, process, "list", after="asked")

    def _commit_beside(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look for jobs in a partition of which the files were listed before."""
        there = self._jobs_in(shared, process, self._listed(process)[process.at - 1])
        if there:
            known = process._replace(at=process.at - 1, shown=(*process.shown, there[0]))
            yield self._go(shared, known, "below")
        else:
            yield self._go(shared, process, "list")

    def _commit_page(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List the partitions before the declaration."""
        there = {one for root in self._listed(process) for one in self._jobs_in(shared, process, root)}
        yield self._go(shared, process, "declare", at=1, shown=tuple(sorted(there)))

    def _listed(self, process: Process) -> tuple[str, ...]:
        plan = self.plans[process.job]
        looks_below = any(one.is_below for one in self.plans) and not plan.is_below
        return plan.excludes or (plan.writes if looks_below else ())

    def _pages_only(self, process: Process) -> bool:
        """Whether a job lists partitions only for other jobs."""
        return not self.plans[process.job].excludes and bool(self._listed(process))

    def _jobs_in(self, shared: Shared, process: Process, root: str) -> list[int]:
        """The jobs in the way that a listing of a partition shows."""
        mine, places = self.plans[process.job], (Place.HERE, Place.GONE, Place.SWEPT)
        return [
            number
            for number, plan in enumerate(self.plans)
            if plan.is_below and not mine.is_below and root in plan.writes and hinders(mine, plan)
            if shared.jobs[number].place in places and number not in process.shown
        ]

    def _commit_below(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look at a job that a listing has shown; then list again."""
        onward = self._go(shared, process, "list")
        yield from self._met(shared, process, process.shown[-1], onward)


def was_free(other: Job, options: frozenset[Option]) -> bool:
    """Whether a stale look may show that this job is not in the way."""
    is_stale = Option.STALE_OTHERS in options and other.was is not None
    return is_stale and other.was not in IN_THE_WAY and other.phase in IN_THE_WAY
