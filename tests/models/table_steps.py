"""What processes do with jobs of a table: set up and read, commit, abort, undo, in the product's order.

The order of a commit: declare, claim, list old files, record, move, seal, `commit` in the log, remove
old files, `done` in the log, committed, clean-up. Each run enters at the state that the job is in. A
process that finds the state changed looks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ray_committer.errors import TableLogError
from ray_committer.protocol.state import TRANSITIONS, UNDECIDED, Phase
from ray_committer.protocol.table_entry import Isolation
from tests.models.table_log import Answer, LogReader
from tests.models.table_world import (
    CREATE,
    NO_FILES,
    REWRITE,
    Draft,
    Entry,
    File,
    Plan,
    Process,
    Rule,
    Shared,
    Step,
    leaves,
    new_files,
    with_job,
    within,
)

_NEXT = {
    Phase.OPEN: "declare",
    Phase.DECLARED: "withdraw",
    Phase.RECORDED: "move",
    Phase.SEALED: "publish",
    Phase.COMMITTED: "clean",
}


class TableSteps:
    """The requests of processes, but for the rules that are left out.

    A process `waits` for a claim in its way by looking again, or by ending the other job; with
    `gives_up` it only ever gives up. With `drafts`, others can put what it was about to put.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        isolation: Isolation = Isolation.SERIALIZABLE,
        without: frozenset[Rule] = frozenset(),
        *,
        gives_up: bool = False,
        drafts: bool = False,
    ) -> None:
        self.plans = plans
        self.without = without
        self.log = LogReader(plans, isolation, without)
        self.gives_up = gives_up
        self.drafts = drafts

    def steps(self, shared: Shared, process: Process) -> Iterator[Step]:
        """What the next request of a process may lead to; it fails if the log is wrong."""
        if process.told is None:
            try:
                yield from getattr(self, f"_{process.does}_{process.step}")(shared, process)
            except TableLogError:
                yield self._told(shared, process, "failed")

    def outdated(self, process: Process, changed: int) -> Process:
        """Where a process is after another has changed the state of a job."""
        if process.job == changed and process.is_current:
            return process._replace(is_current=False)
        return process

    def files(self, shared: Shared, number: int) -> list[File]:
        """The files that a job writes, in the order in which they are moved."""
        return sorted(new_files(number, self.plans[number], shared.jobs[number].read))

    def _has(self, rule: Rule) -> bool:
        return rule not in self.without

    def _go(self, shared: Shared, process: Process, step: str, **changes: object) -> Step:
        return shared, process._replace(step=step, **changes), -1  # type: ignore[arg-type]

    def _look(self, shared: Shared, process: Process) -> Step:
        return shared, Process(process.does, process.job, waits=process.waits), -1

    def _told(self, shared: Shared, process: Process, told: str) -> Step:
        """End; who has ended another job goes on with its own."""
        if process.waits >= 0:
            return shared, Process("commit", process.waits), -1
        return shared, Process(process.does, process.job, "", told=told), -1

    def _changed(
        self, shared: Shared, process: Process, phase: Phase, step: str, **changes: object
    ) -> Iterator[Step]:
        """Change the state that the process knows, and go on with `step`; or see that it is lost."""
        job = shared.jobs[process.job]
        if job.is_here and process.is_current and phase in TRANSITIONS[job.phase or Phase.OPEN]:
            job = job._replace(phase=phase, **changes)  # type: ignore[arg-type]
            known = process._replace(step=step, at=0, is_current=True)
            yield with_job(shared, process.job, job), known, process.job
        elif process.step == "record":
            yield self._go(shared, process, "late")
        else:
            yield self._look(shared, process)

    def _append(self, shared: Shared, entry: Entry) -> Shared:
        """Append an entry, unless it is there."""
        there = any(
            (one.kind, one.claim, one.job) == (entry.kind, entry.claim, entry.job) for one in shared.log
        )
        return shared if there else shared._replace(log=(*shared.log, entry))

    def _posted(self, shared: Shared, process: Process, entry: Entry) -> Iterator[Step]:
        """Write a draft of an entry that could be put now."""
        draft = Draft(entry, len(shared.log))
        if self.drafts and draft not in shared.drafts:
            yield shared._replace(drafts=shared.drafts | {draft}), process, -1

    # Another process, which puts the drafts of others.

    def _pack_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Put a draft; without a rule, at most twice, so that the log does not grow for ever."""
        for draft in sorted(shared.drafts, key=repr):
            if shared.log.count(draft.entry) < 2 and self.log.may_put(shared.log, draft):
                yield shared._replace(log=(*shared.log, draft.entry)), process, -1

    # The application: it sets its job up, reads, and commits.

    def _drive_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        plan, job = self.plans[process.job], shared.jobs[process.job]
        unread = leaves(plan.all_reads)
        job = job._replace(unread=unread)
        if plan.reads_early and unread:
            yield self._go(with_job(shared, process.job, job), process, "read")
        else:
            yield self._set_up(with_job(shared, process.job, job), process, "read")

    def _set_up(self, shared: Shared, process: Process, step: str) -> Step:
        job = shared.jobs[process.job]
        job = job._replace(phase=Phase.OPEN, is_here=True, base=len(shared.log))
        shared = with_job(shared, process.job, job)
        if not job.unread:
            return shared, Process("commit", process.job), process.job
        return self._go(shared, process, step)

    def _drive_read(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Read all of a snapshot, or one directory."""
        plan, job = self.plans[process.job], shared.jobs[process.job]
        if not self._reads_snapshot(plan):
            read = within(shared.visible, job.unread[:1])
            job = job._replace(read=job.read | read, unread=job.unread[1:])
        else:
            read = within(self.log.files(shared.log[: job.base]), plan.all_reads)
            if not read <= shared.visible:
                yield self._told(shared, process, "failed")
                return
            job = job._replace(read=read, unread=())
        after = with_job(shared, process.job, job)
        if job.unread:
            yield self._go(after, process, "read")
        elif job.phase is None:
            yield self._go(after, process, "begin")
        elif job.is_here:
            yield after, Process("commit", process.job), -1
        else:
            yield self._told(shared, process, "failed")

    def _drive_begin(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._set_up(shared, process, "")

    def _reads_snapshot(self, plan: Plan) -> bool:
        if plan.mode is REWRITE:
            return self._has(Rule.FROM_SNAPSHOT)
        return plan.from_snapshot

    # A commit, up to the record.

    def _commit_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = shared.jobs[process.job]
        if job.phase is None or (job.unread and job.is_here):
            yield self._told(shared, process, "too early")  # its tasks are not done
        elif not job.is_here:
            yield self._told(shared, process, "committed" if job.phase is Phase.COMMITTED else "gone")
        elif job.phase in (Phase.UNDOING, Phase.ABORTED):
            yield self._told(shared, process, "refused")
        else:
            step = _NEXT[job.phase]
            if step == "publish" and not self._has(Rule.COMMIT_BEFORE_REMOVAL):
                step = "remove"
            yield self._go(shared, process, step, is_current=True)

    def _commit_withdraw(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Withdraw the declaration of another run, which is taken for dead."""
        yield from self._changed(shared, process, Phase.OPEN, "declare")

    def _commit_declare(self, shared: Shared, process: Process) -> Iterator[Step]:
        is_first = not self._has(Rule.LIST_AFTER_CLAIM)
        yield from self._changed(shared, process, Phase.DECLARED, "early" if is_first else "claim")

    def _commit_early(self, shared: Shared, process: Process) -> Iterator[Step]:
        """List old files, without the rule, before the claim."""
        yield self._go(shared, process, "claim", old=self._listed(shared, process.job))

    def _commit_claim(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Read the log to its end, judge the claim and put it: the last fails if the log has grown."""
        job, number = shared.jobs[process.job], process.job
        found = self.log.judged(shared.log, number, job.base)
        match found.answer:
            case Answer.GOES_ON:
                entry = Entry("claim", number, files=frozenset(self.files(shared, number)))
                yield from self._posted(shared, process, entry)
                after = shared._replace(log=(*shared.log, entry))
                yield self._claimed(after, process, len(after.log))
            case Answer.OWN:
                yield self._claimed(shared, process, found.version)
            case Answer.WAITS:
                yield from self._wait(shared, process, found.other)
            case _:
                yield from self._withdrawn(shared, process, "refused")

    def _claimed(self, shared: Shared, process: Process, version: int) -> Step:
        """List old files next, if the job does; an append records itself."""
        plan = self.plans[process.job]
        lists = (plan.replaces or plan.mode is CREATE) and self._has(Rule.LIST_AFTER_CLAIM)
        return self._go(shared, process, "list" if lists else "record", claim=version)

    def _wait(self, shared: Shared, process: Process, other: int) -> Iterator[Step]:
        """End the claim of an aborted job; or withdraw, and give up, look again or end the other job."""
        theirs = shared.jobs[other]
        if theirs.is_here and theirs.phase is Phase.ABORTED:
            yield self._go(self._released(shared, other, puts_always=False), process, "claim")
            return
        yield from self._withdrawn(shared, process, "waited")
        if self.gives_up or process.waits >= 0:
            return
        for after, _, changed in self._withdrawn(shared, process, ""):
            yield after, Process("commit", process.job), changed
            if theirs.is_here and theirs.phase in UNDECIDED:
                yield after, Process("abort", other, waits=process.job), changed
            elif theirs.is_here and theirs.phase in (Phase.RECORDED, Phase.SEALED):
                yield after, Process("commit", other, waits=process.job), changed

    def _withdrawn(self, shared: Shared, process: Process, told: str) -> Iterator[Step]:
        for after, _, changed in self._changed(shared, process, Phase.OPEN, ""):
            yield (*self._told(after, process, told)[:2], changed)

    def _commit_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        old = self._listed(shared, process.job)
        if old and self.plans[process.job].mode is CREATE:
            yield from self._withdrawn(shared, process, "refused")
        else:
            yield self._go(shared, process, "record", old=old)

    def _listed(self, shared: Shared, number: int) -> frozenset[File]:
        plan = self.plans[number]
        return (
            within(shared.visible, (plan.where,)) if plan.replaces or plan.mode is CREATE else NO_FILES
        )

    def _commit_record(self, shared: Shared, process: Process) -> Iterator[Step]:
        is_rewrite = self.plans[process.job].mode is REWRITE
        old = shared.jobs[process.job].read if is_rewrite else process.old
        yield from self._changed(
            shared, process, Phase.RECORDED, "move", record=old, claim=process.claim
        )

    def _commit_late(self, shared: Shared, process: Process) -> Iterator[Step]:
        """End the claim of the own job, if it was aborted meanwhile."""
        job = shared.jobs[process.job]
        if job.is_here and job.phase is Phase.ABORTED:
            shared = self._released(shared, process.job)
        yield self._look(shared, process)

    # A commit, after the record.

    def _commit_move(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Move the next file, unless it is moved; after the last, seal the job."""
        job, number = shared.jobs[process.job], process.job
        files = self.files(shared, number)
        if process.at == len(files):
            if self._seals(number):
                yield from self._sealed(shared, process)
            else:
                yield self._go(shared, process, "publish", at=0)
            return
        file = files[process.at]
        next_one = process._replace(at=process.at + 1)
        if job.is_here and file not in job.taken:
            shared = with_job(shared, number, job._replace(taken=job.taken | {file}))
            yield shared._replace(visible=shared.visible | {file}), next_one, -1
        elif file in shared.visible:
            yield shared, next_one, -1
        else:
            yield self._look(shared, process)

    def _seals(self, number: int) -> bool:
        return self.plans[number].replaces or self._has(Rule.SEAL_APPENDS)

    def _sealed(self, shared: Shared, process: Process) -> Iterator[Step]:
        step = "publish" if self._has(Rule.COMMIT_BEFORE_REMOVAL) else "remove"
        yield from self._changed(shared, process, Phase.SEALED, step)

    def _commit_publish(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Say in the log that the job is committed."""
        job = shared.jobs[process.job]
        if job.record is None:
            yield self._look(shared, process)
            return
        entry = Entry("commit", process.job, job.claim, job.record)
        step = "remove" if job.record else "decide"
        if not self._is_published(shared, process.job):
            yield from self._posted(shared, process, entry)
        yield self._go(self._append(shared, entry), process, step, at=0)

    def _commit_remove(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Remove the next old file; after the last, say so in the log."""
        job = shared.jobs[process.job]
        old = sorted(job.record or NO_FILES)
        if process.at < len(old):
            shared = shared._replace(visible=shared.visible - {old[process.at]})
            yield self._go(shared, process, "remove", at=process.at + 1)
        elif not (self._has(Rule.COMMIT_BEFORE_REMOVAL) or self._is_published(shared, process.job)):
            yield self._go(shared, process, "publish")
        else:
            entry = Entry("done", process.job, job.claim)
            after = self._append(shared, entry)
            if after is not shared:
                yield from self._posted(shared, process, entry)
            yield self._go(after, process, "decide")

    def _is_published(self, shared: Shared, number: int) -> bool:
        return any((one.kind, one.job) == ("commit", number) for one in shared.log)

    def _commit_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield from self._changed(shared, process, Phase.COMMITTED, "clean")

    def _commit_clean(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the directory of a committed job away."""
        job = shared.jobs[process.job]._replace(is_here=False)
        yield self._told(with_job(shared, process.job, job), process, "committed")

    # An abort, and an undo.

    def _abort_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        job = shared.jobs[process.job]
        known = process._replace(is_current=True)
        if job.phase is None or not job.is_here:
            yield self._told(shared, process, "gone")
        elif job.phase in UNDECIDED:
            yield self._go(shared, known, "decide" if self._has(Rule.ABORT_AFTER_STATE) else "early")
        elif job.phase is Phase.ABORTED:
            yield self._go(shared, known, "release")
        elif process.does == "undo" and job.phase in (Phase.RECORDED, Phase.UNDOING):
            yield self._go(shared, known, "begin" if job.phase is Phase.RECORDED else "take")
        else:
            yield self._told(shared, known, "refused")

    def _abort_early(self, shared: Shared, process: Process) -> Iterator[Step]:
        """End the claim, without the rule, before the job is aborted."""
        after = self._released(shared, process.job, puts_always=False)
        yield self._go(after, process, "decide")

    def _abort_decide(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield from self._changed(shared, process, Phase.ABORTED, "release")

    def _abort_release(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Say in the log that the job was aborted."""
        yield self._go(self._released(shared, process.job), process, "clean")

    def _released(self, shared: Shared, number: int, *, puts_always: bool = True) -> Shared:
        claim = self.log.claim_of(shared.log, number)
        if claim is not None:
            return self._append(shared, Entry("abort", number, claim.version))
        is_there = any((one.kind, one.job) == ("abort", number) for one in shared.log)
        if puts_always and not is_there and self._has(Rule.ABORT_BEFORE_GONE):
            return self._append(shared, Entry("abort", number))
        return shared

    def _abort_clean(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take the directory of an aborted job away."""
        job = shared.jobs[process.job]._replace(is_here=False)
        yield self._told(with_job(shared, process.job, job), process, "aborted")

    def _undo_begin(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield from self._changed(shared, process, Phase.UNDOING, "take")

    def _undo_take(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Take each file away from its source first, then from the destination."""
        job, number = shared.jobs[process.job], process.job
        files = self.files(shared, number)
        if not job.is_here:
            yield self._look(shared, process)
        elif process.at == 2 * len(files):
            yield from self._changed(shared, process, Phase.ABORTED, "release")
        else:
            file = files[process.at // 2]
            if process.at % 2 == 0:
                shared = with_job(shared, number, job._replace(taken=job.taken | {file}))
            else:
                shared = shared._replace(visible=shared.visible - {file})
            yield self._go(shared, process, "take", at=process.at + 1)

    _undo_look, _undo_early, _undo_decide = _abort_look, _abort_early, _abort_decide
    _undo_release, _undo_clean = _abort_release, _abort_clean
