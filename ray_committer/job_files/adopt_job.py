"""Take over a job of Hadoop's S3A committer: its pendingsets become the manifests of a job here.

The job then is one that Hadoop set up and whose tasks have committed: it gets its state from the commit,
and is checked, recorded, continued and aborted like any other. Uploads are not touched. What the tasks
left below ``__magic`` goes after the job is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ray_committer.errors import AmbiguousJobError, ManifestError
from ray_committer.job_files.find_job import is_noted, read_attempt_state
from ray_committer.job_files.settle import put
from ray_committer.protocol.magic_paths import MagicJob, PendingPlace
from ray_committer.protocol.manifest import encode_manifest
from ray_committer.protocol.paths import JobAttempt, attempt_number, join, new_job_attempt, parent
from ray_committer.protocol.pendingsets import decode_pending, decode_pendingset
from ray_committer.protocol.state import Phase
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations, completing
from ray_committer.work.entries import store_path

_Found = tuple[FileStatus, PendingPlace]


def adopt_job(store: StoreOperations, destination: str, job_id: str, number: int | None) -> bool:
    """Write a manifest for each pendingset of a job; False if there is none; idempotent.

    Nothing is written once the job's commit has declared what it writes, because then its manifests
    count, and nothing if ``_SUCCESS`` says that the job is committed. `ManifestError` for a pendingset
    that must not be committed, `AmbiguousJobError` if there are several attempts and none is named.
    """
    if not store.capabilities.completes_uploads:
        return False
    magic = _magic_job(store, destination, job_id)
    found = _pendingsets(store, magic)
    if not found:
        return False
    chosen = _choose(magic, {place.attempt for _, place in found}, number)
    job = new_job_attempt(destination, job_id, chosen)
    own = [one for one in found if one[1].attempt == chosen]
    if own and _is_open(store, job):
        store.mkdirs(job.manifests)
        at_once(store, lambda one: _adopt(store, magic, job, one), own)
    return bool(own)


def _is_open(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether the manifests of the job are still collected."""
    phase = read_attempt_state(store, job).phase
    return phase is Phase.OPEN or (phase is None and not is_noted(store, job))


def _adopt(store: StoreOperations, magic: MagicJob, job: JobAttempt, found: _Found) -> None:
    status, place = found
    manifest = decode_pendingset(store.read(status.path), status.path, magic)
    path = job.manifest(place.task_id or "")
    put(store, path, encode_manifest(manifest), temporary=f"{path}.tmp")


def remove_adopted(store: StoreOperations, destination: str, job_id: str) -> int:
    """Remove what S3A left of a committed job, and abort the uploads of its tasks that did not commit;
    return how many there were; idempotent."""
    magic = _magic_job(store, destination, job_id)
    aborted = 0
    for directory in magic.directories:
        files = store.list_files(directory)
        uploads = [upload for one in files if (upload := _uncommitted(store, magic, one))]
        aborted += sum(at_once(store, lambda one: completing(store).abort_upload(*one), uploads))
        for tasks in sorted({one for file in files if (one := _tasks_of(directory, file.path))}):
            store.delete_directory(tasks)  # the pendingsets last: by them this is found again
        store.delete_directory(directory)
        store.remove_empty_directory(parent(directory))
    return aborted


def _tasks_of(directory: str, path: str) -> str | None:
    """The directory of all task attempts that a file is in; None for a pendingset."""
    parts = path.removeprefix(f"{directory}/").split("/")
    depth = 1 if attempt_number(parts[0]) is None else 2
    return join(directory, *parts[:depth]) if len(parts) > depth else None


def _magic_job(store: StoreOperations, destination: str, job_id: str) -> MagicJob:
    return MagicJob(store.spec.authority, destination, job_id)


def _pendingsets(store: StoreOperations, magic: MagicJob) -> list[_Found]:
    """The pendingsets of all attempts of a job, in either layout."""
    found = [one for directory in magic.directories for one in _listed(store, directory)]
    numbered = [one.path for one in found if one.is_directory and attempt_number(one.name) is not None]
    found += [one for directory in numbered for one in _listed(store, directory)]
    places = [(one, magic.place_of(one.path)) for one in found if not one.is_directory]
    return [(one, place) for one, place in places if place is not None and place.task_id is not None]


def _listed(store: StoreOperations, directory: str) -> Sequence[FileStatus]:
    with suppress(FileNotFoundError):
        return store.list_status(directory)
    return ()


def _choose(magic: MagicJob, attempts: set[int], number: int | None) -> int:
    if number is not None:
        return number
    if len(attempts) > 1:
        raise AmbiguousJobError(
            f"{magic.directories[1]}: has the attempts {sorted(attempts)}", "name one with --attempt"
        )
    return min(attempts)


def _uncommitted(store: StoreOperations, magic: MagicJob, status: FileStatus) -> tuple[str, str] | None:
    """The upload of a task attempt that did not commit; None for any other file."""
    place = magic.place_of(status.path)
    if place is None or place.task_attempt_id is None:
        return None
    with suppress(FileNotFoundError, ManifestError):
        entry = decode_pending(store.read(status.path), status.path, magic)
        return store_path(entry.d, store.spec), entry.u or ""
    return None
