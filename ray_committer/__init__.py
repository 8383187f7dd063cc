"""Commit the output of large Spark jobs on Ray: complete, exclusive, resumable."""

from ray_committer.api import (
    AbortPlan,
    Document,
    DocumentKind,
    Evidence,
    JobPlan,
    JobSummary,
    PlannedRename,
    VacuumedJob,
    Validation,
    abort_job,
    commit_job,
    commit_pool,
    doctor,
    list_jobs,
    plan_abort,
    plan_job,
    read_document,
    record_job,
    setup_job,
    vacuum_jobs,
    validate_job,
)
from ray_committer.cancellation import CancelToken
from ray_committer.commit_report import CommitReport, Outcome
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.record import ConflictMode
from ray_committer.task_attempts import TaskAttempt, task_attempt
from ray_committer.version import __version__

__all__ = [
    "AbortPlan",
    "CancelToken",
    "CommitOptions",
    "CommitReport",
    "CommittedTask",
    "ConflictMode",
    "Document",
    "DocumentKind",
    "Evidence",
    "JobPlan",
    "JobSummary",
    "Outcome",
    "PlannedRename",
    "TaskAttempt",
    "VacuumedJob",
    "Validation",
    "__version__",
    "abort_job",
    "commit_job",
    "commit_pool",
    "doctor",
    "list_jobs",
    "plan_abort",
    "plan_job",
    "read_document",
    "record_job",
    "setup_job",
    "task_attempt",
    "vacuum_jobs",
    "validate_job",
]
