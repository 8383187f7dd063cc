"""What Spark's driver asks for, and the options of a job that follow from it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.paths import ANY_PARTITION
from ray_committer.protocol.prepared import prepare
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.uri import quote_path
from ray_committer.tables.run_session import jobs_of_spark


class Task(msgspec.Struct, frozen=True, rename="camel"):
    """What a task has committed: its `manifest`, and its `text` if that is small."""

    manifest: str
    size: int
    sha256: str
    task_attempt_id: str
    files: int = 0
    text: str | None = None

    def committed(self) -> CommittedTask:
        text = None if self.text is None else self.text.encode()
        return CommittedTask(
            self.manifest, self.sha256, self.task_attempt_id, self.size, self.files, text
        )


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """A request of any kind; only a commit request has partitions, roots and tasks. `session` is the
    application, or the run of a query of a stream, `batch` the query and its batch, and `known_jobs`
    what the session has committed under the run id."""

    job_id: str
    job_attempt: int
    dest: str
    commit: str
    dynamic_partition_overwrite: bool
    replace_paths: list[str] = []
    partition_paths: list[str] = []
    absolute_roots: list[str] = []
    mark_success: bool = True
    session: str = ""
    batch: str = ""
    known_jobs: list[str] = []
    tasks: list[Task] = []


class TasksRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Tasks that have committed since the last request, while others of their job still run."""

    job_id: str
    tasks: list[Task]


prepare(Request)
prepare(TasksRequest)


def setup_options(request: Request, options: CommitOptions) -> CommitOptions:
    """Return the options of a job's set-up; a dynamic overwrite does not know yet what it replaces."""
    # For partitions that only the commit knows: other jobs see an overwrite from the start.
    partitions = (f"{request.dest}/{ANY_PARTITION}",) if request.dynamic_partition_overwrite else ()
    roots = (*request.replace_paths, *partitions)
    return replace(
        options,
        job_attempt=request.job_attempt,
        mode=ConflictMode.OVERWRITE if roots else ConflictMode.APPEND,
        replaced_roots=roots,
    )


def commit_options(request: Request, options: CommitOptions) -> CommitOptions:
    """Return the options of one job: values from Spark take precedence over the session's options."""
    is_overwrite = request.dynamic_partition_overwrite or request.replace_paths
    roots = (
        *request.replace_paths,
        # Locations of partitions outside the destination, which only Spark's catalog knows.
        *(request.absolute_roots if is_overwrite else ()),
        *(f"{request.dest}/{quote_path(path)}" for path in request.partition_paths),
    )
    return replace(
        options,
        job_attempt=request.job_attempt,
        expected_tasks=len(request.tasks),
        committed_tasks=tuple(task.committed() for task in request.tasks),
        mode=ConflictMode.OVERWRITE if roots else ConflictMode.APPEND,
        replaced_roots=roots,
        partition_paths=tuple(request.partition_paths),
        allowed_roots=tuple(request.absolute_roots),
        known_jobs=(
            *request.known_jobs,
            *jobs_of_spark(request.session, request.batch, options.run_id or ""),
        ),
        mark_success=request.mark_success and options.mark_success,
    )
