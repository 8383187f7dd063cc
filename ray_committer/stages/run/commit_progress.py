"""The progress of one run of a commit, and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ray_committer.errors import CommitStateUnknownError, JobGoneError, RayCommitterError
from ray_committer.job_files.job_state import Seen
from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.remove_replaced_files import Removal
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stages.save_success_file import WrittenSuccess


@dataclass(slots=True)
class CommitProgress:
    """The progress of this run, as its result shows it."""

    record: CommitRecord | None = None
    resumed: bool = False
    outcome: Outcome = Outcome.FAILED
    directories: int = 0
    removal: Removal = field(default_factory=Removal)
    validated: int = 0
    table_version: int | None = None
    run_id: str | None = None
    committed_by: str | None = None
    partitions: list[str] | None = None
    renamed: Renamed = field(default_factory=Renamed)
    sealed: Seen | None = None
    """The state in which this run has sealed the job, after it had moved its files."""
    success: WrittenSuccess | None = None
    """``_SUCCESS`` under its temporary name."""
    is_begun: bool = False
    """Whether a state of the job was seen that comes after its commit record."""
    is_still_open: bool = False
    """Whether the state of the job was read after a failure, and showed that it is not committed."""

    @property
    def is_decided(self) -> bool:
        """Whether a commit record exists."""
        return self.resumed or self.is_begun or self.record is not None

    def result(
        self, context: JobContext, failure: Exception | None, limit: LimitStatistics
    ) -> CommitResult:
        """The result of this run, also if it failed."""
        record, renamed = self.record, self.renamed
        return CommitResult(
            destination=context.url,
            job_id=context.job.job_id,
            job_attempt=context.job.number,
            outcome=self.outcome if failure is None else Outcome.FAILED,
            executor=context.executor.name,
            executor_reason=context.executor_reason,
            dashboard=context.executor.dashboard,
            workers=context.executor.workers,
            resumed=self.resumed,
            manifests=record.tasks if record else 0,
            files=record.files if record else 0,
            bytes=record.bytes if record else 0,
            directories=self.directories,
            whole=renamed.directories,
            whole_files=renamed.whole_files,
            by_file={reason.value: number for reason, number in renamed.by_file.items()},
            moved=renamed.moved,
            proved=dict(renamed.proved),
            replaced=self.removal.removed,
            changed=list(context.journal.changed),
            validated=self.validated,
            table_version=self.table_version,
            run_id=self.run_id,
            committed_by=self.committed_by,
            partitions=self.partitions,
            requests=limit.requests,
            throttled=limit.throttled,
            lowest_rate=limit.lowest,
            retries=context.journal.statistics.counters.get(names.STORE_IO_RETRY, 0),
            seconds=time.monotonic() - context.began,
            stage_seconds=dict(context.journal.seconds),
            notices=list(context.journal.notices),
            error=str(failure) if failure else None,
            committed_anyway=self.committed_anyway(failure),
        )

    def committed_anyway(self, failure: Exception | None) -> bool | None:
        """Whether a run that failed, or was interrupted, has committed the job; None: not known."""
        if self.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED):
            return failure is not None
        if self.is_still_open or self.outcome is Outcome.RECORDED:
            return False
        if isinstance(failure, RayCommitterError):
            return None if isinstance(failure, CommitStateUnknownError | JobGoneError) else False
        return None if self.is_decided else False  # an interrupt, or a bug
