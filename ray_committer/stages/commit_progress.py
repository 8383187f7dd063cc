"""The progress of one run of a commit, and the report of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.record import CommitRecord
from ray_committer.report.commit_report import CommitReport, Outcome
from ray_committer.stages.context import JobContext
from ray_committer.stages.rename_files import Renamed


@dataclass(slots=True)
class CommitProgress:
    """The progress of this run, as the report shows it."""

    record: CommitRecord | None = None
    resumed: bool = False
    outcome: Outcome = Outcome.FAILED
    directories: int = 0
    replaced: int = 0
    validated: int = 0
    renamed: Renamed = field(default_factory=Renamed)

    @property
    def is_decided(self) -> bool:
        """Whether a commit record exists."""
        return self.resumed or self.record is not None


def commit_report(
    context: JobContext, progress: CommitProgress, failure: Exception | None, limit: LimitStatistics
) -> CommitReport:
    """The report of this run, also if it failed."""
    record, renamed = progress.record, progress.renamed
    return CommitReport(
        destination=context.url,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        outcome=progress.outcome if failure is None else Outcome.FAILED,
        executor=context.executor.name,
        workers=context.executor.width,
        resumed=progress.resumed,
        manifests=len(record.manifests) if record else 0,
        files=record.files if record else 0,
        bytes=record.bytes if record else 0,
        directories=progress.directories,
        moved=renamed.moved,
        proved={proof.value: number for proof, number in renamed.proved.items()},
        replaced=progress.replaced,
        validated=progress.validated,
        requests=limit.requests,
        throttled=limit.throttled,
        lowest_rate=limit.lowest,
        retries=context.journal.statistics.counters.get(names.STORE_IO_RETRY, 0),
        stage_seconds=dict(context.journal.seconds),
        notices=list(context.journal.notices),
        error=str(failure) if failure else None,
    )
