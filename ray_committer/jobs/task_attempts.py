"""A task attempt from Python: where it writes, and its manifest after it has ended."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from ray_committer.errors import PathError, RayCommitterError, StoreRefusedError, TaskCommitError, mark
from ray_committer.job_files.job_state import is_job_of
from ray_committer.jobs.open_job import StorageOptions, located_errors, open_here
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.places.choose import needed, output_of
from ray_committer.places.staged_files import StagedFiles
from ray_committer.protocol.iostatistics import duration
from ray_committer.protocol.paths import JobAttempt, is_inside, join, new_job_attempt, parent
from ray_committer.protocol.statistic_names import TASK_SETUP
from ray_committer.protocol.uri import normal_path
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.output import open_output, writable_url
from ray_committer.work.entries import check_dest, longest_source
from ray_committer.work.upload_file import TaskUploads


@dataclass(slots=True)
class TaskAttempt:
    """A running task attempt; the files that it writes below `directory` are committed with it.

    directory: where it writes; no reader looks there. A file there whose name the task has not asked
        for is committed as well, unless the name is hidden (``.x``, ``_x``) or the file is a socket, a
        fifo or a device: such are passed over, and the commit's report names them.
    committed: after the block has ended, what it has committed: a value of some kilobytes at most. The
        driver passes the values of all tasks to `commit_job` as `committed`.
    """

    store: StoreOperations
    job: JobAttempt
    task_attempt_id: str
    directory: str
    committed: CommittedTask | None = None
    uploads: TaskUploads | None = None
    """On S3: the files of this attempt, which nobody sees before the commit."""
    named: set[str] = field(default_factory=set, repr=False)
    """The paths that `open` and `path` have given out: they are committed, also if they are hidden."""
    staged: StagedFiles | None = field(default=None, repr=False)
    """Of a writer that chooses names: its files beside those of other attempts."""

    def path(self, relative: str) -> str:
        """Return where to write the file whose place will be `relative` to the destination.

        The directory of the returned path exists. It is a local path or, on any other store, a URL as
        fsspec takes it.
        """
        if self.uploads is not None:
            raise StoreRefusedError(
                f"{mark(self.job.destination)}: a file on S3 cannot be written elsewhere first and then "
                "moved",
                "write it with attempt.open(), or write a local file and copy it there",
            )
        with self._errors():
            return writable_url(self.store, self._made(relative))

    def open(self, relative: str) -> BinaryIO:
        """Open a new file whose place will be `relative` to the destination. The caller closes it.

        `PreflightError` for a name that a commit would refuse. `TaskCommitError` if the job or this
        attempt was aborted, `StoreFailedError` if the store refuses the file.
        """
        with self._errors():
            if self.uploads is None:
                return open_output(self.store, self._made(relative))
            return self.uploads.open(self._place(relative))  # type: ignore[return-value]

    def open_chosen(self, relative: str) -> tuple[BinaryIO, str]:
        """`open`, for a writer whose names have the token of `staged`; returns the file and its path."""
        staged = self.staged
        with self._errors():
            if staged is not None:
                place = self._place(relative)
                if (path := staged.path(place)) is not None:
                    self._check_length(path)
                    with suppress(PermissionError):  # another user has made the directory
                        file = open_output(self.store, path)
                        staged.places[path] = place
                        return file, path
                if not staged.has_own_directory:
                    staged.make(self.directory)
                    staged.has_own_directory = True
        return self.open(relative), join(self.directory, relative)

    def _made(self, relative: str) -> str:
        path = normal_path(join(self.directory, relative))
        if not is_inside(path, self.directory):
            raise PathError(f"{relative!r}: leads out of the task attempt's directory")
        self._place(path.removeprefix(f"{self.directory}/"))
        self._check_length(path)
        # One by one, with a look at the attempt's own directory before each: `mkdirs` alone would make
        # that again after an abort, and a late task would leave files of no job (R13).
        for above in needed(self.store, (parent(path),)):
            if self.store.get_status(self.directory) is None:  # not to be made again after an abort
                raise FileNotFoundError(self.directory)
            self.store.mkdirs(above)
        self.named.add(path)
        return path

    def _place(self, relative: str) -> str:
        """The place of a file inside the destination; an error if a commit would refuse it."""
        path = normal_path(join(self.job.destination, relative))
        if not is_inside(path, self.job.destination):
            raise PathError(f"{path!r}: leads out of the destination")
        check_dest(path, self.job, (self.job.destination,), self.store)
        return path

    def _check_length(self, path: str) -> None:
        if len(path.encode()) > (longest := longest_source(self.store)):
            raise PathError(
                f"{mark(path)}: is where the task writes, and longer than the store allows "
                f"({longest} bytes before a commit)",
                "use a shorter destination, partition values or file name",
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with located_errors(self.store.spec):
            try:
                yield
            except FileNotFoundError as e:
                raise TaskCommitError(
                    f"{mark(self.directory)}: is gone, because the job or this attempt was aborted"
                ) from e


@contextmanager
def task_attempt(
    dest: str,
    job_id: str,
    task: int,
    attempt: int | None = 0,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> Iterator[TaskAttempt]:
    """Run one attempt of one task: committed when the block ends, aborted when it raises.

    If several attempts of a task are committed, the last one counts. Set `attempt` to None if attempts
    have no numbers, or if several attempts can end and the driver learns of one. Then the number is
    random, and the attempt keeps its manifest beside the manifests of other attempts. The driver must
    pass the `committed` of the attempt that counts to `commit_job`.

    It can run on any machine that sees the store. `TaskCommitError` if the job was aborted, or if the
    manifest cannot be saved: run the task again, with another `attempt`.

    >>> with task_attempt(dest, "job_1", task=2) as attempt:
    ...     with attempt.open("day=2/part-0.csv") as file:
    ...         written = file.write(b"EWR,IAH")
    >>> attempt.committed.task_attempt_id
    'attempt_1_m_000002_0'
    """
    with run_attempt(
        dest, job_id, task, attempt, options=options, storage_options=storage_options
    ) as running:
        yield running


@contextmanager
def run_attempt(
    dest: str,
    job_id: str,
    task: int,
    attempt: int | None,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    chooses_names: bool = False,
) -> Iterator[TaskAttempt]:
    """`task_attempt`, also for a writer that `chooses_names`, and opens its files by `open_chosen`."""
    with open_here(dest, options, storage_options) as (store, destination):
        job = new_job_attempt(destination, job_id, options.job_attempt or 0)
        stem = f"{job_id.removeprefix('job_')}_m_{task:06d}"
        number = secrets.randbelow(2**31) if attempt is None else attempt
        task_attempt_id = f"attempt_{stem}_{number}"
        began = time.monotonic()
        directory, stamp = setup_task(store, job, task_attempt_id, chooses_names=chooses_names)
        setup = duration(TASK_SETUP, round((time.monotonic() - began) * 1000))
    running = TaskAttempt(store, job, task_attempt_id, directory)
    running.uploads = output_of(store).open(directory, stamp)
    if chooses_names and output_of(store).stages(stamp):
        running.staged = StagedFiles(store, job, task_attempt_id, partial(is_job_of, store, job, stamp))
    try:
        yield running
    except BaseException as e:
        _abort(running, e)
        raise
    with located_errors(store.spec):
        committed = commit_task(
            store,
            job,
            task_id=f"task_{stem}" if attempt is not None else f"task_{stem}_{number}",
            task_attempt_id=task_attempt_id,
            stamp=stamp,
            named=running.named,
            uploads=running.uploads,
            staged=running.staged,
            statistics=setup,
        )
    # Only after the manifest is looked at again: a driver must never be handed a late attempt.
    running.committed = committed


def _abort(running: TaskAttempt, error: BaseException) -> None:
    """Abort an attempt that has failed: a failure of that is added as a note to its own `error`."""
    try:
        with located_errors(running.store.spec):
            if running.uploads is not None:
                running.uploads.abort()
            staged = running.staged.places if running.staged is not None else ()
            abort_task(running.store, running.job, running.task_attempt_id, staged)
    except (OSError, RayCommitterError) as e:
        error.add_note(f"The files of the task attempt were not deleted: {e}")
