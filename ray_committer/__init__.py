"""Commit the output of large Spark jobs on Ray: complete, exclusive, resumable.

A task attempt writes below ``$dest/_temporary``; the commit of its job moves the files to their places.
In this example, `dest` is a new directory:

>>> import ray_committer
>>> job = ray_committer.setup_job(dest, "job_1")
>>> with ray_committer.task_attempt(dest, job, task=0) as attempt:
...     with attempt.open("day=1/part-0.csv") as file:
...         written = file.write(b"EWR,IAH")
>>> [(one.job_id, one.state) for one in ray_committer.list_jobs(dest)]
[('job_1', 'running')]
>>> ray_committer.plan_job(dest, job).files
1
>>> report = ray_committer.commit_job(dest, job, committed=[attempt.committed])
>>> report.outcome.value, report.moved
('committed', 1)
>>> compared = ray_committer.validate_job(dest, job)
>>> other = ray_committer.setup_job(dest)
>>> ray_committer.abort_job(dest, other)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray_committer.events import CancelToken
    from ray_committer.interop.exports.result import Exported
    from ray_committer.jobs.abort_report import AbortReport
    from ray_committer.jobs.commit import (
        abort_job,
        commit_job,
        commit_pool,
        doctor,
        record_job,
        setup_job,
    )
    from ray_committer.jobs.documents import Document, DocumentKind, read_document
    from ray_committer.jobs.job_plan import JobPlan, PlannedRename
    from ray_committer.jobs.list_jobs import JobSummary, list_jobs
    from ray_committer.jobs.plan import plan_job
    from ray_committer.jobs.plan_abort import plan_abort
    from ray_committer.jobs.task_attempts import TaskAttempt, task_attempt
    from ray_committer.jobs.vacuum import VacuumedJob, vacuum_jobs
    from ray_committer.jobs.vacuum_uploads import VacuumedUpload, vacuum_uploads
    from ray_committer.jobs.validate import Evidence, Validation, validate_job
    from ray_committer.options import CommitOptions, CommittedTask
    from ray_committer.protocol.commit_result import Outcome
    from ray_committer.protocol.file_list import ListedFile
    from ray_committer.protocol.record import ConflictMode
    from ray_committer.report.commit_report import CommitReport
    from ray_committer.table_jobs.resolve_claim import ResolvedClaim, resolve_claim
    from ray_committer.table_jobs.scan_table import ScannedClaim, TableScan, scan_table
    from ray_committer.table_jobs.snapshot import Snapshot, snapshot
    from ray_committer.table_jobs.table import LoggedEntry, export_delta, init_table, table_log
    from ray_committer.table_jobs.table_changes import (
        CommittedJob,
        TableChange,
        WrittenFile,
        changes,
        history,
        who_wrote,
    )
    from ray_committer.table_jobs.table_maintenance import drop_partition, undo_version
    from ray_committer.version import __version__

__all__ = [
    "AbortReport",
    "CancelToken",
    "CommitOptions",
    "CommitReport",
    "CommittedJob",
    "CommittedTask",
    "ConflictMode",
    "Document",
    "DocumentKind",
    "Evidence",
    "Exported",
    "JobPlan",
    "JobSummary",
    "ListedFile",
    "LoggedEntry",
    "Outcome",
    "PlannedRename",
    "ResolvedClaim",
    "ScannedClaim",
    "Snapshot",
    "TableChange",
    "TableScan",
    "TaskAttempt",
    "VacuumedJob",
    "VacuumedUpload",
    "Validation",
    "WrittenFile",
    "__version__",
    "abort_job",
    "changes",
    "commit_job",
    "commit_pool",
    "doctor",
    "drop_partition",
    "export_delta",
    "history",
    "init_table",
    "list_jobs",
    "plan_abort",
    "plan_job",
    "read_document",
    "record_job",
    "resolve_claim",
    "scan_table",
    "setup_job",
    "snapshot",
    "table_log",
    "task_attempt",
    "undo_version",
    "vacuum_jobs",
    "vacuum_uploads",
    "validate_job",
    "who_wrote",
]

_NAMES = {
    "events": "CancelToken",
    "interop.exports.result": "Exported",
    "jobs.abort_report": "AbortReport",
    "jobs.commit": "abort_job commit_job commit_pool doctor record_job setup_job",
    "jobs.documents": "Document DocumentKind read_document",
    "jobs.job_plan": "JobPlan PlannedRename",
    "jobs.list_jobs": "JobSummary list_jobs",
    "jobs.plan": "plan_job",
    "jobs.plan_abort": "plan_abort",
    "jobs.task_attempts": "TaskAttempt task_attempt",
    "jobs.vacuum": "VacuumedJob vacuum_jobs",
    "jobs.vacuum_uploads": "VacuumedUpload vacuum_uploads",
    "jobs.validate": "Evidence Validation validate_job",
    "options": "CommitOptions CommittedTask",
    "protocol.commit_result": "Outcome",
    "protocol.file_list": "ListedFile",
    "protocol.record": "ConflictMode",
    "report.commit_report": "CommitReport",
    "table_jobs.resolve_claim": "ResolvedClaim resolve_claim",
    "table_jobs.scan_table": "ScannedClaim TableScan scan_table",
    "table_jobs.snapshot": "Snapshot snapshot",
    "table_jobs.table": "LoggedEntry export_delta init_table table_log",
    "table_jobs.table_changes": "CommittedJob TableChange WrittenFile changes history who_wrote",
    "table_jobs.table_maintenance": "drop_partition undo_version",
    "version": "__version__",
}
"""What each module has of these names."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a name on its first use: a Spark task needs little of this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
