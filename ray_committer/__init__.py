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

_ELSEWHERE = {
    "AbortReport": "jobs.abort_report",
    "CancelToken": "events",
    "CommitOptions": "options",
    "CommitReport": "report.commit_report",
    "CommittedJob": "table_jobs.table_changes",
    "CommittedTask": "options",
    "ConflictMode": "protocol.record",
    "Document": "jobs.documents",
    "DocumentKind": "jobs.documents",
    "Evidence": "jobs.validate",
    "Exported": "interop.exports.result",
    "JobPlan": "jobs.job_plan",
    "JobSummary": "jobs.list_jobs",
    "ListedFile": "protocol.file_list",
    "LoggedEntry": "table_jobs.table",
    "Outcome": "protocol.commit_result",
    "PlannedRename": "jobs.job_plan",
    "ResolvedClaim": "table_jobs.resolve_claim",
    "ScannedClaim": "table_jobs.scan_table",
    "Snapshot": "table_jobs.snapshot",
    "TableChange": "table_jobs.table_changes",
    "TableScan": "table_jobs.scan_table",
    "TaskAttempt": "jobs.task_attempts",
    "VacuumedJob": "jobs.vacuum",
    "VacuumedUpload": "jobs.vacuum_uploads",
    "Validation": "jobs.validate",
    "WrittenFile": "table_jobs.table_changes",
    "__version__": "version",
    "changes": "table_jobs.table_changes",
    "drop_partition": "table_jobs.table_maintenance",
    "export_delta": "table_jobs.table",
    "history": "table_jobs.table_changes",
    "init_table": "table_jobs.table",
    "list_jobs": "jobs.list_jobs",
    "plan_abort": "jobs.plan_abort",
    "plan_job": "jobs.plan",
    "read_document": "jobs.documents",
    "resolve_claim": "table_jobs.resolve_claim",
    "scan_table": "table_jobs.scan_table",
    "snapshot": "table_jobs.snapshot",
    "table_log": "table_jobs.table",
    "task_attempt": "jobs.task_attempts",
    "undo_version": "table_jobs.table_maintenance",
    "vacuum_jobs": "jobs.vacuum",
    "vacuum_uploads": "jobs.vacuum_uploads",
    "validate_job": "jobs.validate",
    "who_wrote": "table_jobs.table_changes",
}
"""The modules of the names that are not in `api`."""


def __getattr__(name: str) -> Any:
    """Import a name on its first use: a Spark task needs little of this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'jobs.commit')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
