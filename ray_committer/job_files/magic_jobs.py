"""Find what jobs of Hadoop's magic committer have left at a destination; changes nothing.

Nothing shows whether the driver of such a job still lives: its committer has no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ray_committer.errors import AmbiguousJobError
from ray_committer.places.choose import output_of
from ray_committer.protocol.magic_paths import MAGIC, MagicJob, PendingPlace, magic_job_of
from ray_committer.protocol.manifest import FileEntry
from ray_committer.protocol.paths import JobAttempt, attempt_number, join, new_job_attempt
from ray_committer.protocol.pendingsets import decode_pending, decode_pendingset
from ray_committer.stores.base import FileStatus, StoreOperations

Pendingset = tuple[FileStatus, PendingPlace]


@dataclass(frozen=True, slots=True)
class LeftJob:
    """One attempt of a job that Hadoop's committer left, and its pendingsets."""

    magic: MagicJob
    number: int
    pendingsets: tuple[Pendingset, ...]
    directory: str
    """The directory of the job."""

    @property
    def job(self) -> JobAttempt:
        """The same attempt as a job here."""
        return new_job_attempt(self.magic.destination, self.magic.uuid, self.number)


def find_left(
    store: StoreOperations, destination: str, job_id: str, number: int | None
) -> LeftJob | None:
    """Find a job that was left, in either layout; None if there is none.

    `AmbiguousJobError` if it has several attempts with pendingsets and none is named.
    """
    attempts = left_attempts(store, destination, job_id)
    if not attempts:
        return None
    if number is not None:
        none = LeftJob(attempts[0].magic, number, (), attempts[0].directory)
        return next((one for one in attempts if one.number == number), none)
    live = [one for one in attempts if one.pendingsets] or attempts
    if len(live) > 1:
        numbers = [one.number for one in live]
        raise AmbiguousJobError(
            f"{live[0].directory}: has the attempts {numbers}", "name one with --attempt"
        )
    return live[0]


def left_attempts(store: StoreOperations, destination: str, job_id: str) -> list[LeftJob]:
    """The attempts of a job that was left, in either layout, by number; empty if there is none."""
    magic = MagicJob(store.spec.authority, destination, job_id)
    directories = output_of(store).uploading(magic.directories)
    listed = {one: found for one in directories if (found := _listed(store, one)) is not None}
    if not listed:
        return []
    every = [one for found in listed.values() for one in found]
    inner = [one.path for one in every if one.is_directory and attempt_number(one.name) is not None]
    every += [one for path in inner for one in _listed(store, path) or ()]
    files = _pendingsets(magic, every)
    numbers = {place.attempt for _, place in files} | {_number(path) for path in inner} or {0}
    own = {number: tuple(one for one in files if one[1].attempt == number) for number in numbers}
    return [LeftJob(magic, number, own[number], next(iter(listed))) for number in sorted(own)]


def list_left(store: StoreOperations, destination: str) -> list[str]:
    """The ids of all jobs that were left at a destination, sorted; two requests."""
    found: list[FileStatus] = []
    for status in list_magic(store, destination):
        found += (_listed(store, status.path) or ()) if status.name == MAGIC else [status]
    jobs = (magic_job_of(store.spec.authority, destination, one.path) for one in found)
    return sorted({one.uuid for one in jobs if one is not None})


def list_magic(store: StoreOperations, destination: str) -> list[FileStatus]:
    """The directories of Hadoop's committer at a destination."""
    places = output_of(store).uploading((join(destination, MAGIC),))
    found = (one for place in places for one in store.list_prefix(place))
    return [one for one in found if one.is_directory]


def uploads_in(store: StoreOperations, magic: MagicJob, status: FileStatus) -> list[FileEntry]:
    """The uploads that a file of a job names; `ManifestError` if it is damaged, ``FileNotFoundError`` if
    it is gone.

    A task leaves an empty file beside each file that names an upload.
    """
    place = magic.place_of(status.path)
    if place is None or not status.size:
        return []
    data = store.read(status.path)
    if place.task_id is not None:
        return decode_pendingset(data, status.path, magic).files
    return [decode_pending(data, status.path, magic)]


def _pendingsets(magic: MagicJob, listed: Iterable[FileStatus]) -> list[Pendingset]:
    places = [(one, magic.place_of(one.path)) for one in listed if not one.is_directory]
    return [(one, place) for one, place in places if place is not None and place.task_id is not None]


def _listed(store: StoreOperations, directory: str) -> Sequence[FileStatus] | None:
    with suppress(FileNotFoundError):
        return store.list_exact(directory)
    return None


def _number(path: str) -> int:
    return attempt_number(path.rpartition("/")[2]) or 0
