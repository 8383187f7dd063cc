"""Every choice of a commit, its unit and its default."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.protocol.record import ConflictMode


@dataclass(frozen=True, slots=True)
class CommittedTask:
    """What the driver knows of a successful task: its `manifest` file, that file's SHA-256, and
    which attempt saved it."""

    manifest: str
    digest: str
    task_attempt_id: str | None


_AT_LEAST_ONE = (
    "threads",
    "workers",
    "worker_threads",
    "shard_files",
    "max_requests_per_second",
    "lease_seconds",
    "rename_attempts",
    "manifest_save_attempts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How one job is committed. What a commit record already says wins over what is asked here.

    job_attempt: Hadoop's job attempt number; needed only if the job has several on the store.
    expected_tasks: how many tasks succeeded; the commit stops if another number of manifests is there.
    assume_complete: without `expected_tasks`, take it that all tasks are done; who calls from a driver
        knows, who finds a job on the store does not.
    committed_tasks: each successful task; the manifests must be exactly these, byte for byte.
    ignore_other_attempts: with `committed_tasks`, leave out manifests that these do not name: those of
        attempts whose result nobody used, where each attempt saves a manifest of its own.
    mode: what becomes of data at the destination; judged once, before the commit record is written.
    replaced_roots: with OVERWRITE, the directories whose present files are replaced, as paths or
        URLs on the destination's store; empty means the whole destination.
    allowed_roots: directories outside the destination to which tasks may have written.
    partition_paths: the partitions that a dynamic partition overwrite replaces; kept in the record.
    mark_success: write ``_SUCCESS``.
    cleanup: remove the job's directory after the commit.
    validate: list each destination directory and compare; None means where listing is cheap.
    durable: force what the commit did to disk before it counts, so that a power cut takes nothing back;
        the content of its files is for who writes them to force.
    delete_blocking_files: remove a file that stands where a directory must go.
    summary_directory: where ``summary-$jobId.json`` is written, on the destination's store.
    threads: operations at once, in this process.
    workers, worker_threads, worker_cpus: Ray rename workers (None: two a node, at least two), the
        operations at once in each, and the CPUs that each asks Ray for.
    may_start_ray: whether executor="ray" may start a local Ray where none is connected.
    worker_start_seconds: how long a Ray worker may take to start.
    shard_files: the most files that a worker is given at once; None: what it renames in a tenth of a
        second, but no more than 1,000.
    max_requests_per_second: requests of all kinds to the store, of all processes together; None is no
        limit until the store throttles.
    lease_seconds: how long a process goes on when it cannot ask whether it still may.
    retry_seconds: how long one request is repeated that the store throttles or does not answer.
    rename_attempts: tries of a rename that failed and proved not to have happened.
    manifest_save_attempts: tries of saving a task manifest.
    """

    job_attempt: int | None = None
    expected_tasks: int | None = None
    assume_complete: bool = True
    committed_tasks: tuple[CommittedTask, ...] | None = None
    ignore_other_attempts: bool = False
    mode: ConflictMode = ConflictMode.APPEND
    replaced_roots: tuple[str, ...] = ()
    allowed_roots: tuple[str, ...] = ()
    partition_paths: tuple[str, ...] = ()
    mark_success: bool = True
    cleanup: bool = True
    validate: bool | None = None
    durable: bool = False
    delete_blocking_files: bool = False
    summary_directory: str | None = None
    threads: int = 32
    workers: int | None = None
    worker_threads: int = 16
    worker_cpus: float = 0.1
    may_start_ray: bool = True
    worker_start_seconds: float = 30.0
    shard_files: int | None = None
    max_requests_per_second: float | None = None
    lease_seconds: float = 10.0
    retry_seconds: float = 300.0
    rename_attempts: int = 8
    manifest_save_attempts: int = 5

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"CommitOptions.{name} must be at least 1, not {value}")
