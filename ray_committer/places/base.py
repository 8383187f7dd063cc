"""Where the state, the manifests and the directory of a job are on one kind of store, and how they go.

A store can rename a directory in one step, or only change an object on the condition of its version.
There nothing is moved: what counts is copied to packs, and the files of a job are deleted where they
are, as they were listed while its state showed that it had ended. Each kind is a form of `Places`, which
`places_of` chooses. Nothing else asks which kind a store is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ray_committer.protocol.paths import (
    CONTENT_SUFFIX,
    CURRENT,
    UNDONE,
    JobAttempt,
    join,
    may_be_tasks,
)
from ray_committer.protocol.state import JobState
from ray_committer.stores.base import FileStatus, StoredState, StoreOperations, Versions

T = TypeVar("T")
Request = Callable[[], StoredState | None]
Ask = Callable[[], bool]
Act = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of jobs on one store. The defaults are the form for Google Cloud Storage, with a
    hierarchical namespace or without."""

    store: StoreOperations

    def state(self, job: JobAttempt) -> str:
        """Return where the store keeps the state of a job."""
        return join(job.state, CURRENT)

    def make_job(self, job: JobAttempt, stamp: str) -> None:
        """Make the directories of a job that gets its first state, with this `stamp`, next: if the state
        needs one, and if the files of tasks can be frozen."""

    def begin_state(self, job: JobAttempt, state: JobState, make: Callable[[Request], T]) -> T:
        """Give a job its first state, by a request that `make` makes and settles; return its answer.
        ``FileExistsError`` if it has one, ``FileNotFoundError`` if it lacks a directory for it."""
        self.store.check_conditions(self.state(job))
        return make(lambda: self.store.advance(self.state(job), None, state.token))

    def add_content(self, job: JobAttempt, nonce: str, content: bytes) -> str:
        """Keep what belongs to the state that gets this `nonce`; return what the state itself holds."""
        return content.decode()

    def manifests(self, job: JobAttempt) -> tuple[str, ...]:
        """The directories where a job's manifests can be, frozen or not."""
        return (job.manifests,)

    def freeze(self, job: JobAttempt) -> bool:
        """Take the manifests away from the tasks, to where `frozen` says; idempotent. False if that was
        done before, and a late task has made their directory again."""
        return True

    def frozen(self, job: JobAttempt) -> str | None:
        """The directory of the frozen manifests; None if they stay with the tasks: packs count."""
        return None

    def keeps_manifests(self, job: JobAttempt) -> bool:
        """Whether a late task can replace a manifest that counts: the record has its digest then."""
        return True

    @property
    def waits_in_freeze(self) -> bool:
        """Whether the freeze waits for an answer, so that other work can be done meanwhile."""
        return False

    def take_away(self, job: JobAttempt, is_meant: Callable[[JobAttempt], bool]) -> JobAttempt | None:
        """Take the directory of a job away in one step; return where it is now, to be discarded there.
        None if there is none, or if it is another than is meant: then it is put back."""
        return job

    def taken_away(self, listed: Callable[[], list[JobAttempt]]) -> list[JobAttempt]:
        """The directories that jobs here have taken away and that are not discarded yet, as `listed`."""
        return []  # what has such a name is a copy of another store's, which is left to `vacuum`

    def take_further(self, gone: JobAttempt) -> JobAttempt | None:
        """Take what was taken away to a name that no other process knows; None if it is gone."""
        return gone  # a copy of another store's, which no other process reads

    def discard(self, gone: JobAttempt, is_meant: Ask, delete_state: Act, *, is_aborted: bool) -> bool:
        """Delete what was taken away; idempotent. False if by now it is another job than is meant. Where
        nothing was moved, `delete_state` comes last. What was taken back goes if it `is_aborted`."""
        store, undone = self.store, (join(gone.directory, UNDONE),) if is_aborted else ()
        contents = [
            status for status in listed_in(store, gone.state) if status.name.endswith(CONTENT_SUFFIX)
        ]
        if not store.delete_listed((gone.tasks, gone.manifests, gone.packs, *undone), is_meant):
            return False
        for status in contents:
            store.delete_file(status.path)
        delete_state()
        for directory in (gone.state, gone.directory):
            store.remove_empty_directory(directory)
        return True

    def clears_attempts(self, job: JobAttempt) -> bool:
        """Whether workers delete many directories of task attempts faster than one deletion of all."""
        return False  # each name is deleted by itself, so a listing per attempt would gain nothing

    def can_count(self, directory: str) -> bool:
        """Whether a listing of a directory is little beside its deletion."""
        return True

    @property
    def lists_versions(self) -> bool:
        """Whether only a listing shows the version of a file."""
        return self.store.capabilities.versions is Versions.LISTED

    @property
    def binds_renames(self) -> bool:
        """Whether a rename names the version of its source."""
        return self.store.capabilities.versions is not Versions.NONE

    @property
    def lists_files_by_pages(self) -> bool:
        """Whether one request lists the files of many directories."""
        return self.store.has(StoreOperations.list_files_page)

    @property
    def moves_whole(self) -> bool:
        """Whether the files of tasks can be frozen, and go whole, if the store does not refuse it."""
        return False

    @property
    def needs_sync(self) -> bool:
        """Whether a power cut loses what is done and was not forced to disk."""
        return self.store.has(StoreOperations.sync)

    @property
    def are_listed_alike(self) -> bool:
        """Whether all machines see the same facts in a listing: not on file systems that each mounts,
        since each numbers the files in its own way."""
        return not self.store.has(StoreOperations.network_file_system)

    @property
    def deletes_versions(self) -> bool:
        """Whether a deletion can name the version that `read_version` has shown."""
        return True

    def read_version(self, path: str) -> tuple[bytes, str | None]:
        """Read a file, and its version if it has one: what is written meanwhile has another."""
        stored = self.store.read_state(path)
        if stored is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return stored.text.encode(errors="surrogateescape"), stored.version

    @property
    def cleanup_ends_attempts(self) -> bool:
        """Whether the clean-up of a job finds its other attempts by `list_job`, and ends them."""
        return False

    def list_job(self, directory: str) -> tuple[FileStatus, ...] | None:
        """All files below the directory of a job, and the marks of directories, from one listing; None
        on a store where that would list the job's data."""
        return None


class Uploads(Places):
    """The form for S3, where a file is an upload until it is completed. A job has few files there: its
    state, manifests, copies of these, and packs. So one listing shows all."""

    __slots__ = ()

    def can_count(self, directory: str) -> bool:
        return False  # the files of its tasks are uploads

    @property
    def cleanup_ends_attempts(self) -> bool:
        return True

    def list_job(self, directory: str) -> tuple[FileStatus, ...] | None:
        return tuple(self.store.list_objects(directory))


def tasks_of(store: StoreOperations, job: JobAttempt) -> list[JobAttempt]:
    """The attempt, once for each directory in which the files of its tasks can be: the frozen ones, then
    the one that late tasks can make again. Links are left out."""
    try:
        listed = store.list_anew(job.directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = sorted(status.name for status in listed if status.is_directory and not status.is_link)
    return [job.with_tasks_in(name) for name in names if may_be_tasks(name)]


def listed_in(store: StoreOperations, directory: str) -> list[FileStatus]:
    """What is in a directory, but for links; nothing if it is not there."""
    try:
        return [status for status in store.list_status(directory) if not status.is_link]
    except FileNotFoundError:
        return []
