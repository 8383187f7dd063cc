"""Save a task's manifest: write it under a temporary name, then rename it into place.

The last attempt of a task wins until the manifests are frozen. After it has saved a manifest, a task
looks at the job's state again, because it may have slept. If the job is over by then, its commit may
have included the manifest, and what showed that is gone. Source: Hadoop SaveTaskManifestStage.
"""

from __future__ import annotations

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    TaskCommitError,
    mark,
    why,
)
from ray_committer.job_files.commands import commit_command
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.read_job import read_job
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep
from ray_committer.options import TEXT_BYTES, TEXT_FILES, CommittedTask
from ray_committer.places.choose import own_files_of, places_of
from ray_committer.protocol.manifest import TaskManifest, digest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.state import UNSTAMPED, Phase
from ray_committer.stores.base import StoreOperations

ATTEMPTS = 5
LOOKS = 900
"""How often, each second, a task reads the state of a declared job: for longer than the default
time that a commit waits for other jobs."""


def save_task_manifest(
    store: StoreOperations,
    job: JobAttempt,
    manifest: TaskManifest,
    *,
    task_id: str,
    task_attempt_id: str,
    stamp: str,
    attempts: int = ATTEMPTS,
    sleep: Sleep = waiting.sleep,
) -> CommittedTask:
    """Save `manifest` as the manifest of `task_id`; return what the driver must know of it. Up to
    `attempts` times after an ``OSError``. `TaskCommitError` if the job is over, was never set up or has
    another `stamp`; `CommitStateUnknownError` if that shows only after the manifest may have been saved.
    `CommitRecordExistsError` if the commit of the job has begun without this task attempt."""
    data = encode_manifest(manifest)
    path, temporary = job.manifest(task_id), job.manifest_temporary(task_attempt_id)
    for attempt in range(1, attempts + 1):
        try:
            if attempt == 1:
                _check_open(read_job(store, job), job, task_attempt_id, stamp)
            elif _is_counted(store, job, path, data, task_attempt_id, stamp, sleep):
                break  # an earlier attempt succeeded, only its answer was lost
            own_files_of(store).put(path, data, temporary=temporary, attempts=1)
            _is_counted(store, job, path, data, task_attempt_id, stamp, sleep)
            break
        except OSError as e:
            if attempt == attempts:
                raise TaskCommitError(
                    f"{mark(path)}: could not be saved in {attempts} tries ({why(e)}), or only the "
                    "answer was lost",
                    "run the task again: its new manifest replaces this one",
                ) from e
            sleep(waiting.REQUEST.after(attempt + 1))
    size, files = len(data), len(manifest.files)
    text = data if size <= TEXT_BYTES and files <= TEXT_FILES else None
    return CommittedTask(path.rpartition("/")[2], digest(data), task_attempt_id, size, files, text)


def _check_open(state: JobStatus, job: JobAttempt, task_attempt_id: str, stamp: str) -> None:
    if state.is_remnant or (state.seen is None and stamp != UNSTAMPED):  # or a late task made it
        raise TaskCommitError(
            f"{mark(job.directory)}: was never set up or is over",
            f"{task_attempt_id} cannot be committed",
        )
    if state.seen is not None and state.seen.state.stamp != stamp:
        raise TaskCommitError(
            f"{mark(job.directory)}: is another job with the same id",
            f"the job that {task_attempt_id} was started for is over, so it cannot be committed",
        )
    if state.phase in (Phase.UNDOING, Phase.ABORTED):
        raise CommitRecordExistsError(
            f"{mark(job.directory)}: the job is being aborted, so it is too late for {task_attempt_id}",
            "nothing of the job will be visible: run its application again",
        )
    if state.phase not in (None, Phase.OPEN):
        raise CommitRecordExistsError(
            f"{mark(job.directory)}: the job is being committed without {task_attempt_id}, which is too "
            "late",
            "let the commit end; if it must include this task, run the application again",
        )


def _is_counted(
    store: StoreOperations,
    job: JobAttempt,
    path: str,
    data: bytes,
    task_attempt_id: str,
    stamp: str,
    sleep: Sleep,
) -> bool:
    """Look again after a manifest was saved: True if the job's commit includes it, False if it has not
    begun. While the job is declared, its committer may still find the manifest, so this waits.
    `CommitRecordExistsError` if the commit has begun without it, `CommitStateUnknownError` if the job is
    over, or undecided for long."""
    for look in range(LOOKS):
        if look:
            sleep(waiting.LOOK_SECONDS)
        state = read_job(store, job)
        try:
            _check_open(state, job, task_attempt_id, stamp)
        except TaskCommitError as e:
            raise _not_known(store, job, task_attempt_id) from e
        except CommitRecordExistsError:
            if _counts(store, job, state.seen, path, data):
                return True
            if state.phase is not Phase.DECLARED:
                # It must not be said not to count if the clean-up may have removed what shows that.
                current = read_state(store, job)
                if current is None or current.state.stamp != stamp or current.phase is Phase.COMMITTED:
                    raise _not_known(store, job, task_attempt_id) from None
                raise
        else:
            return False
    raise CommitStateUnknownError(
        f"{mark(job.directory)}: a commit of this job is declared and has been undecided for long",
        f"it may still include {task_attempt_id}, so keep the files of that task attempt",
    )


def _not_known(store: StoreOperations, job: JobAttempt, task_attempt_id: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{mark(job.directory)}: is over, and it is not known whether its commit included "
        f"{task_attempt_id} or another attempt of that task",
        f"ask what became of the job with: {commit_command(store, job)}; if it is committed, nothing is "
        f"left to do, and if it was aborted, run its application again",
    )


def _counts(
    store: StoreOperations, job: JobAttempt, current: Seen | None, path: str, data: bytes
) -> bool:
    """Whether exactly this manifest is frozen or, where it could still be replaced, in the record."""
    try:
        if not places_of(store).keeps_manifests(job):
            return store.read(join(job.frozen, path.rpartition("/")[2])) == data
        record = current.state.record if current else None
        return record is not None and digest(data).encode() in store.read(job.content(record))
    except FileNotFoundError:
        return False
