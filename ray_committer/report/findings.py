"""What a person should know about a commit, in sentences that are computed only from what was recorded.

There are no sentences if nothing unusual happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.statistic_names import COMMIT_JOB, RENAME_FILES
from ray_committer.protocol.whole import ByFile
from ray_committer.report.amounts import counted
from ray_committer.report.progress import stage_name
from ray_committer.report.run_data import RunData, ThrottledRow, WorkerRow

SLOW = 0.5
"""A worker below this share of the median rate is a straggler, if it also cost time."""
WORTH_SECONDS = 0.5
WORTH_SHARE = 0.05
SHOWN = 3

_PROOFS = {
    Proof.SAME_FILE.value: "by the file's identity (one file under two names)",
    Proof.ETAG.value: "by etag, which a rename keeps",
    Proof.MODIFICATION_TIME.value: "by modification time and size, which a rename keeps",
    Proof.SIZE_ONLY.value: "by size only, which proves little",
}


@dataclass(frozen=True, slots=True)
class Straggler:
    """A worker at `share` of the median rate, and by how many seconds it made the renames longer."""

    row: WorkerRow
    share: float
    cost: float


def findings(report: RunData) -> list[str]:
    """The findings, worst first."""
    return [
        *_failure(report),
        *_changed(report),
        *_lost(report),
        *_throttled(report),
        *_stragglers(report),
        *_other_rights(report),
        *_recovered(report),
        *_retries(report),
    ]


def stragglers(report: RunData) -> list[Straggler]:
    """The workers that were much slower than the others and delayed the renames, costliest first."""
    rows = [row for row in report.worker_rows if row.busy > 0 and row.moves > 0]
    # Of two workers nobody can say which one is the usual one.
    if len(rows) < 3:
        return []
    usual = median(row.moves_per_second for row in rows)
    slow = [row for row in rows if row.moves_per_second < SLOW * usual]
    slow_workers = [
        Straggler(row, row.moves_per_second / usual, _cost(report, rows, row, usual)) for row in slow
    ]
    worth = max(WORTH_SECONDS, WORTH_SHARE * report.stage_seconds.get(RENAME_FILES, 0.0))
    slow_workers = [straggler for straggler in slow_workers if straggler.cost >= worth]
    return sorted(slow_workers, key=lambda straggler: straggler.cost, reverse=True)


def _cost(report: RunData, rows: list[WorkerRow], slow: WorkerRow, usual: float) -> float:
    """How much earlier the renames would have ended if `slow` had worked at the `usual` rate.

    For the time in which all worked: what the same renames would have saved at the higher rate of all.
    For the time in which only `slow` worked: that time, less what all together needed for these.
    """
    began = min((at for at, _ in report.files_at), default=0.0)
    others_ended = max(row.last for row in rows if row is not slow)
    together = max(0.0, min(slow.last, others_ended) - began)
    alone = max(0.0, slow.last - others_ended)
    rate = sum(row.moves_per_second for row in rows)
    # What all would do together if this one were as fast as the median.
    better = rate - slow.moves_per_second + usual
    return together * (1 - rate / better) + alone * (1 - slow.moves_per_second / better)


def _failure(report: RunData) -> Iterator[str]:
    if report.outcome is not Outcome.FAILED:
        return
    failed = [row.stage for row in report.stages if row.error and row.stage != COMMIT_JOB]
    where = f" in the stage {stage_name(failed[0])}" if failed else ""
    done = report.moved + sum(report.proved.values())
    if report.untold:
        yield f"It failed{where}."
    elif report.manifests:
        yield (
            f"It stopped{where} with {done:,} of {report.files:,} files in place; everything was kept, "
            f"and the same command finishes the commit."
        )
    elif report.resumed:
        yield f"It stopped{where} before this run moved a file; files of an earlier run are in place."
    else:
        yield f"It stopped{where} before any file was moved."


def _changed(report: RunData) -> Iterator[str]:
    """Old data that is read beside the new data."""
    if report.changed:
        files = counted(len(report.changed), "old file")
        shown, more = report.changed[:SHOWN], len(report.changed) - SHOWN
        named = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        yield (
            f"{files} that the job was to replace {_were(len(report.changed))} changed by another "
            f"program and kept, so readers see them beside the new data: look at {named}."
        )


def _lost(report: RunData) -> Iterator[str]:
    number = len(report.lost_workers) + report.dropped.get("lost_workers", 0)
    if not number:
        if report.shards_requeued:
            yield f"{counted(report.shards_requeued, 'shard')} had to be repeated."
        return
    named = ", ".join(
        f"{_place(lost_worker.worker, lost_worker.node)} after {lost_worker.seconds:,.1f} s"
        for lost_worker in report.lost_workers[:SHOWN]
    )
    more = f" and {number - SHOWN:,} more" if number > SHOWN else ""
    yield (
        f"{counted(number, 'worker')} {_were(number)} lost and replaced: {named}{more}; "
        f"{counted(report.shards_requeued, 'shard')} {_were(report.shards_requeued)} given to other "
        f"workers."
    )


def _throttled(report: RunData) -> Iterator[str]:
    for span in report.throttled_spans[:SHOWN]:
        yield _span(span)
    if len(report.throttled_spans) > SHOWN:
        rest = report.throttled_spans[SHOWN:]
        yield (
            f"It throttled in {len(rest):,} more spans, until {rest[-1].last:,.1f} s, and refused "
            f"{sum(span.refused for span in rest):,} requests in them."
        )
    if report.throttled and not report.throttled_spans:
        yield f"The store refused {counted(report.throttled, 'request')} because there were too many."


def _span(span: ThrottledRow) -> str:
    text = (
        f"The store throttled from {span.began:,.1f} s to {span.last:,.1f} s and refused "
        f"{counted(span.refused, 'request')}; the limiter went from {span.before:,.0f} down to "
        f"{span.lowest:,.0f} requests per second"
    )
    if span.recovered is not None:
        return f"{text} and was back {max(0.0, span.recovered - span.last):,.1f} s later."
    return f"{text} and had come back to {span.end:,.0f} when the commit ended."


def _stragglers(report: RunData) -> Iterator[str]:
    slow_workers = stragglers(report)
    for straggler in slow_workers[:SHOWN]:
        place = _place(straggler.row.worker, straggler.row.node)
        yield (
            f"{place[:1].upper()}{place[1:]} ran at {straggler.share:.1g}x the median "
            f"({straggler.row.moves_per_second:,.0f} renames per second); at the median the renames "
            f"would have ended about {_seconds(straggler.cost)} earlier."
        )
    if len(slow_workers) > SHOWN:
        number = len(slow_workers) - SHOWN
        yield f"{number:,} more {'worker was' if number == 1 else 'workers were'} also slow."


def _other_rights(report: RunData) -> Iterator[str]:
    if number := report.by_file.get(ByFile.RIGHTS):
        yield (
            f"The files of {'a directory' if number == 1 else f'{number:,} directories'} were moved one "
            f"by one, because tasks make directories with another owner, group or mode than the commit: "
            f"run both as one user with one umask."
        )


def _recovered(report: RunData) -> Iterator[str]:
    for proof, number in sorted(report.proved.items()):
        if number:
            why = "moved by an earlier run" if report.resumed else "moved, but the answer was lost"
            how = _PROOFS.get(proof, f"by {proof}")
            reason = "" if report.source else f" ({why})"
            yield f"{counted(number, 'rename')} {_were(number)} found done{reason}, proved {how}."


def _retries(report: RunData) -> Iterator[str]:
    if report.retries:
        requests = counted(report.retries, "request")
        yield f"{requests} had to be repeated after a failed or missing answer."


def _place(worker: str, node: str) -> str:
    return f"{worker} on {node}" if node else worker


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
