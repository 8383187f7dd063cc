"""The log of the model of tables; the code of the product reads it and judges the claims."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ray_committer.protocol.claims import Obstacle, Verdict, judge
from ray_committer.protocol.file_list import ListedFile, inline_set
from ray_committer.protocol.table_entry import (
    Isolation,
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDone,
    WriteMode,
)
from ray_committer.protocol.table_pack import may_follow
from ray_committer.protocol.table_state import (
    ClaimInFlight,
    TableState,
    ended_since,
    follow,
)
from tests.models.table_world import CREATE, OLD, Draft, Entry, Files, Log, Plan, Rule

IMPORTED = Plan(CREATE, "")
"""The job whose files were there at first."""

_MANGLED = "all"


class Answer(StrEnum):
    """What becomes of a claim."""

    GOES_ON = "goes on"
    WAITS = "waits"
    REFUSED = "refused"
    OWN = "there is one already"
    ABORTED = "its job was aborted"


class Judged(NamedTuple):
    """What becomes of a claim, and which job is in its way, or the version of the one that is there."""

    answer: Answer
    other: int = -1
    version: int = 0


class LogReader:
    """Reads logs, but for the rules that are left out; it remembers each that it has read."""

    def __init__(self, plans: Sequence[Plan], isolation: Isolation, without: frozenset[Rule]) -> None:
        self.plans = plans
        self.isolation = isolation
        self.without = without
        self._entries: dict[Entry, LogEntry] = {}
        self._states: dict[Log, tuple[TableState, Files]] = {(): (TableState(), frozenset())}
        self._judged: dict[tuple[Log, int, int], Judged] = {}

    def state(self, log: Log) -> TableState:
        """The claims in flight."""
        return self._read(log)[0]

    def files(self, log: Log) -> Files:
        """The files of a snapshot."""
        return self._read(log)[1]

    def claim_of(self, log: Log, number: int) -> ClaimInFlight | None:
        """The claim in flight of a job."""
        return next((one for one in self.state(log).in_flight if job_of(one) == number), None)

    def judged(self, log: Log, number: int, base: int) -> Judged:
        """Judge a claim of a job, as `Claimant.put` does."""
        key = log, number, base
        if key not in self._judged:
            self._judged[key] = self._judge(log, number, base)
        return self._judged[key]

    def may_put(self, log: Log, draft: Draft) -> bool:
        """Whether another process than its owner puts a draft at the end of the log."""
        entry = self._entry(draft.entry)
        later = [self._entry(one) for one in log[draft.seen :]] if self._has(Rule.KNOW_SINCE) else []
        if not self._has(Rule.JUDGE_DRAFTS):
            later = [one for one in later if one.job_id == entry.job_id]
        for rule, is_abort in ((Rule.NOT_TWICE, False), (Rule.NOT_AFTER_ABORT, True)):
            if not self._has(rule):
                others = (one for one in later if isinstance(one, TableAbort) is not is_abort)
                later = [one for one in later if one.job_id != entry.job_id] + [
                    one for one in others if one.job_id == entry.job_id
                ]
        return may_follow(entry, later)

    def _judge(self, log: Log, number: int, base: int) -> Judged:
        claim = self._claim(Entry("claim", number))
        at_base = self.state(log[:base])
        later = [(base + 1 + place, self._entry(entry)) for place, entry in enumerate(log[base:])]
        ended, now = ended_since(at_base, later)
        committed = (one for one in ended if one.committed is not None and claim.repeats(one.claim))
        if self._has(Rule.OWN_CLAIM) and (own := now.own(claim) or next(committed, None)):
            return Judged(Answer.OWN, version=own.version)
        if self._has(Rule.ABORT_BEFORE_GONE) and any(
            isinstance(entry, TableAbort) and entry.job_id == claim.job_id for _, entry in later
        ):
            return Judged(Answer.ABORTED)
        others = [one for one in ended if not claim.repeats(one.claim)]
        obstacle = self._obstacle(claim, at_base, others, now.in_flight)
        if obstacle is None:
            return Judged(Answer.GOES_ON)
        is_refused = obstacle.verdict is Verdict.REFUSED
        return Judged(Answer.REFUSED if is_refused else Answer.WAITS, job_of(obstacle.other))

    def _obstacle(
        self,
        claim: TableClaim,
        at_base: TableState,
        ended: Sequence[ClaimInFlight],
        in_flight: Sequence[ClaimInFlight],
    ) -> Obstacle | None:
        if not self._has(Rule.UNDONE_AT_BASE):
            before = {one.version for one in at_base.in_flight if one.committed is not None}
            ended = [one for one in ended if one.version not in before]
        if not self._has(Rule.COUNT_ABORTED):
            ended = [one for one in ended if one.committed is not None]
        if not self._has(Rule.READ_REWRITES) and claim.mode not in (
            WriteMode.REPLACE,
            WriteMode.REWRITE,
        ):
            ended = [one for one in ended if one.claim.mode is not WriteMode.REWRITE]
        if not self._has(Rule.REWRITE_ALWAYS) and self.isolation is Isolation.NONE:
            ended = []
        if not self._has(Rule.HOLD_UNTIL_DONE):
            in_flight = [one for one in in_flight if one.committed is None]
        if not self._has(Rule.CHECK_IN_FLIGHT):
            in_flight = []
        if self._has(Rule.TWO_WAY):
            return judge(claim, ended, in_flight, self.isolation)
        found = judge(claim, ended, (), self.isolation)
        one_way = judge(claim, in_flight, (), self.isolation)
        if found is None and one_way is not None:
            return Obstacle(Verdict.WAITS, one_way.other, one_way.partitions)
        return found

    def _has(self, rule: Rule) -> bool:
        return rule not in self.without

    def _read(self, log: Log) -> tuple[TableState, Files]:
        found = self._states.get(log)
        if found is None:
            before, there = self._read(log[:-1])
            state, committed = follow(before, [(len(log), self._entry(log[-1]))])
            if committed:
                there = self._after(log, there, committed[0].claim_version)
            found = self._states[log] = state, there
        return found

    def _after(self, log: Log, there: Files, claim: int) -> Files:
        """The files after a commit, by their paths."""
        removed = {file.path for file in log[-1].files}
        kept = {file.path: file for file in there if file.path not in removed}
        return frozenset((kept | {file.path: file for file in log[claim - 1].files}).values())

    def _entry(self, entry: Entry) -> LogEntry:
        found = self._entries.get(entry)
        if found is None:
            found = self._entries[entry] = self._made(entry)
        return found

    def _made(self, entry: Entry) -> LogEntry:
        if entry.kind == "claim":
            return self._claim(entry)
        said = {"job_id": str(entry.job), "job_attempt": 0, "claim": entry.claim, "at_milliseconds": 0}
        match entry.kind:
            case "commit":
                return TableCommit(**said, removed=inline_set(_listed(entry.files)))
            case "done":
                return TableDone(**said)
        return TableAbort(**said)

    def _claim(self, entry: Entry) -> TableClaim:
        plan = IMPORTED if entry.job == OLD else self.plans[entry.job]
        reads = plan.all_reads if plan.mode is WriteMode.REPLACE else plan.reads
        return TableClaim(
            job_id=str(entry.job),
            job_attempt=0,
            nonce=str(entry.job),
            mode=plan.mode,
            base=0,
            partitions=[self._named(plan.where)],
            reads=[self._named(one) for one in reads],
            files=inline_set(_listed(entry.files)),
            at_milliseconds=0,
        )

    def _named(self, directory: str) -> str:
        """A directory as a claim names it; without the rule, no name is above another."""
        return directory if self._has(Rule.PREFIXES) else (directory or _MANGLED).replace("/", "-")


def job_of(one: ClaimInFlight) -> int:
    return int(one.claim.job_id)


def first_log(there: Files) -> Log:
    """The log that names the files that are there at first."""
    return (Entry("claim", OLD, files=there), Entry("commit", OLD, 1))


def _listed(files: Files) -> list[ListedFile]:
    return [ListedFile(file.path, 1) for file in sorted(files)]
