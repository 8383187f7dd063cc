"""Write, commit and abort jobs on a given store object, as the API does with a URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import StateChangedError, advance, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.read_job import read_job, without_late
from ray_committer.job_files.set_up_here import is_random
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.places.choose import output_of
from ray_committer.places.staged_files import StagedFiles
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import SUCCESS, TEMPORARY, JobAttempt, is_inside, join, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.staging import staged_path, token_of
from ray_committer.protocol.state import UNSTAMPED, Phase
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.context import JobContext
from ray_committer.stages.other_jobs.end_others import End, EndJob
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.stages.undo_job import undo_job
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore
from ray_committer.testing.chaos_executor import Chaos, ChaosExecutor
from ray_committer.work.load_ahead import LoadAhead
from ray_committer.work.upload_file import NOTES
from ray_committer.work.worker import Worker

_OF_OTHERS = CommitOptions(assume_complete=False, conflict_wait_seconds=0.0, known_jobs=())


def run_commit(
    store: StoreOperations,
    job: JobAttempt,
    options: CommitOptions | None = None,
    *,
    executor: WorkExecutor | None = None,
    state: JobStatus | None = None,
    on_event: EventSink = ignore,
    ahead: LoadAhead | None = None,
) -> CommitResult:
    """Commit `job` on `store`, by default inline, so that the order of the calls is fixed. `state` is
    the state of the job, if the caller has read it already; `ahead`, what it has loaded of its tasks."""
    options = options or CommitOptions()
    return commit_job(
        replace(_context(store, job, options, executor), emit=on_event),
        state or without_late(store, read_job(store, job)),
        replaced_roots=options.replaced_roots,
        allowed_roots=options.allowed_roots,
        ahead=ahead,
    )


def load_ahead(store: StoreOperations, job: JobAttempt, results: Iterable[CommittedTask]) -> LoadAhead:
    """Load the results of tasks, each as it comes to a driver while others run."""
    current = read_state(store, job)
    context = _context(store, job, CommitOptions(), None)
    ahead = LoadAhead(lambda: context, current.state.stamp if current else UNSTAMPED)
    for result in results:
        ahead.add((result,))
    return ahead


def chaos_executor(
    store: StoreOperations, job: JobAttempt, seed: int, *, kinds: Sequence[Chaos] = tuple(Chaos)
) -> ChaosExecutor:
    """A `ChaosExecutor` for `run_commit`."""
    return ChaosExecutor(
        store,
        lambda mortal, permits: Worker(mortal, job, permits, in_driver=True),
        seed=seed,
        kinds=kinds,
    )


def run_abort(store: StoreOperations, job: JobAttempt) -> bool:
    """Abort `job` on `store`; False if nothing was there."""
    return abort_job(_context(store, job, CommitOptions(), None))


def run_undo(store: StoreOperations, job: JobAttempt) -> bool:
    """Give up the recorded commit of `job`; False if nothing was there."""
    return undo_job(_context(store, job, CommitOptions(), None), read_job(store, job))


def ending(store: StoreOperations) -> EndJob:
    """What ends another job on `store`, for a job that is set up or committed there."""

    def end(rival: JobStatus, how: End) -> list[str]:
        state = read_job(store, rival.job)
        if state.seen != rival.seen:
            raise StateChangedError(state.seen, rival.seen)
        context = _context(store, rival.job, _OF_OTHERS, None)
        if how is End.ABORT:
            advance(store, rival.job, rival.known, Phase.ABORTED)
            abort_job(context)
        elif how is End.UNDO:
            undo_job(context, state)
        else:
            commit_job(context, state)
        return context.journal.notices

    return end


def write_job(
    store: StoreOperations,
    job: JobAttempt,
    tasks: Mapping[int, Mapping[str, bytes]],
    *,
    mode: ConflictMode = ConflictMode.APPEND,
    run_id: str | None = None,
) -> list[CommittedTask]:
    """Set up `job` and commit its tasks, each given by its files and their contents; their results."""
    where = job.any_partition if mode is ConflictMode.OVERWRITE_PARTITIONS else job.destination
    nowhere = (job.any_partition,) if mode is ConflictMode.ERROR_PARTITIONS else ()
    replaces = (where,) if mode.replaces else ()
    stamp = setup_job(
        store,
        job,
        replaces=replaces,
        must_be_empty=nowhere,
        unfinished="refuse" if run_id is None else None,
        run_id=run_id,
        is_new_id=is_random(job.job_id),
        end=ending(store),
    )
    results = []
    for task, files in tasks.items():
        attempt_id = set_up_attempt(store, job, task, 0)
        write_attempt(store, job, attempt_id, files)
        results.append(commit_attempt(store, job, task, attempt_id, stamp=stamp, files=files))
    return results


def set_up_attempt(store: StoreOperations, job: JobAttempt, task: int, attempt: int) -> str:
    """Set up an attempt of a task and return its id."""
    task_attempt_id = f"attempt_{job.job_id}_m_{task:06d}_{attempt}"
    setup_task(store, job, task_attempt_id)
    return task_attempt_id


def source_of(job: JobAttempt, task_attempt_id: str, name: str, stamp: str = "set up here") -> str:
    """Where an attempt of the job with this `stamp` writes a file, on a store with renames: beside the
    files of other attempts, if the name has its token."""
    token = token_of(task_attempt_id) if stamp != UNSTAMPED else None
    path = staged_path(job, join(job.destination, name), token) if token is not None else None
    return path or join(job.task_attempt(task_attempt_id), name)


def write_attempt(
    store: StoreOperations, job: JobAttempt, task_attempt_id: str, files: Mapping[str, bytes]
) -> None:
    """Write files, named relative to the destination, as the task attempt does."""
    current = read_state(store, job)
    directory, stamp = job.task_attempt(task_attempt_id), current.state.stamp if current else UNSTAMPED
    uploads = output_of(store).open(directory, stamp)
    if uploads is not None:
        for name, data in files.items():
            with uploads.open(join(job.destination, name)) as file:
                file.write(data)
        return
    for name, data in files.items():
        put_file(store, source_of(job, task_attempt_id, name, stamp), data)


def commit_attempt(
    store: StoreOperations,
    job: JobAttempt,
    task: int,
    task_attempt_id: str,
    *,
    stamp: str | None = None,
    files: Iterable[str] = (),
) -> CommittedTask:
    """Save the task attempt's manifest, in one try; by default with the stamp of the job. `files` are
    the names that it has staged, and those that count also if they are hidden."""
    if stamp is None:
        current = read_state(store, job)
        stamp = current.state.stamp if current else UNSTAMPED
    named = {name: source_of(job, task_attempt_id, name, stamp) for name in files}
    sources = {path: join(job.destination, name) for name, path in named.items()}
    directory = job.task_attempt(task_attempt_id)
    staged = {path: place for path, place in sources.items() if not is_inside(path, directory)}
    committed = commit_task(
        store,
        job,
        task_id=f"task_{job.job_id}_m_{task:06d}",
        task_attempt_id=task_attempt_id,
        stamp=stamp,
        attempts=1,
        named=sources.keys(),
        staged=StagedFiles(store, job, task_attempt_id, lambda: True, staged, has_own_directory=True),
    )
    notes = (join(job.task_attempt(task_attempt_id), NOTES),)
    for directory in output_of(store).uploading(notes):  # as a task does
        store.delete_listed((directory,), lambda: True)
    return committed


def put_file(store: StoreOperations, path: str, data: bytes) -> None:
    """Write a file and the directories above it."""
    store.mkdirs(parent(path))
    store.write(path, data)


def all_files(store: StoreOperations, directory: str) -> dict[str, bytes]:
    """The files below a directory and their contents, sorted by path; empty if it does not exist."""
    files, level = {}, [directory]
    while level:
        statuses = []
        for path in level:
            with suppress(FileNotFoundError):
                statuses += store.list_status(path)
        files.update(
            {status.path: store.read(status.path) for status in statuses if not status.is_directory}
        )
        level = [status.path for status in statuses if status.is_directory]
    return dict(sorted(files.items()))


def visible_files(store: StoreOperations, destination: str) -> dict[str, bytes]:
    """The files that readers of a destination see, by relative name, without ``_SUCCESS``."""
    files = all_files(store, destination)
    named = {path.removeprefix(join(destination, "")): data for path, data in files.items()}
    return {
        name: data for name, data in named.items() if name.partition("/")[0] not in (TEMPORARY, SUCCESS)
    }


def _context(
    store: StoreOperations, job: JobAttempt, options: CommitOptions, executor: WorkExecutor | None
) -> JobContext:
    executor = executor or InlineExecutor(lambda permits: Worker(store, job, permits, in_driver=True))
    # Chaos comes from a seed alone: the driver makes its requests one after another.
    is_sequential = isinstance(executor, ChaosExecutor)
    return JobContext(
        GuardedStore(store, executor.permits),
        job,
        options,
        executor,
        is_sequential=is_sequential,
        end_other=ending(store),
    )
