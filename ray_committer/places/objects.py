"""Places on a store that changes one object at a time, on the condition of its version.

A state is an object. Nothing is moved: what counts is copied to packs, and the files of a job are
deleted where they are, as they were listed while the state showed that the job had ended.
"""

from __future__ import annotations

from collections.abc import Callable

from ray_committer.places.base import Act, Ask, Places, Request, T
from ray_committer.protocol.paths import CONTENT_SUFFIX, CURRENT, UNDONE, JobAttempt, join
from ray_committer.protocol.state import JobState
from ray_committer.stores.base import FileStatus, StoreOperations


class FlatObjects(Places):
    """The form for Google Cloud Storage, with a hierarchical namespace or without."""

    __slots__ = ()

    def state(self, job: JobAttempt) -> str:
        return join(job.state, CURRENT)

    def make_job(self, job: JobAttempt) -> None:
        pass

    def begin_state(self, job: JobAttempt, state: JobState, make: Callable[[Request], T]) -> T:
        self.store.check_conditions(self.state(job))
        return make(lambda: self.store.advance(self.state(job), None, state.token))

    def add_content(self, job: JobAttempt, nonce: str, content: bytes) -> str:
        return content.decode()

    def manifests(self, job: JobAttempt) -> tuple[str, ...]:
        return (job.manifests,)

    def freeze(self, job: JobAttempt) -> bool:
        return True

    def frozen(self, job: JobAttempt) -> str | None:
        return None

    def keeps_manifests(self, job: JobAttempt) -> bool:
        return True

    def take_away(self, job: JobAttempt, is_meant: Callable[[JobAttempt], bool]) -> JobAttempt | None:
        return job

    def taken_away(self, listed: Callable[[], list[JobAttempt]]) -> list[JobAttempt]:
        return []  # what has such a name is a copy of another store's, which is left to `vacuum`

    def take_further(self, gone: JobAttempt) -> JobAttempt | None:
        return gone  # a copy of another store's, which no other process reads

    def discard(self, gone: JobAttempt, is_meant: Ask, delete_state: Act, *, is_aborted: bool) -> bool:
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
        return False  # each name is deleted by itself, so a listing per attempt would gain nothing

    def can_count(self, directory: str) -> bool:
        return True


class Uploads(FlatObjects):
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


def listed_in(store: StoreOperations, directory: str) -> list[FileStatus]:
    """What is in a directory, but for links; nothing if it is not there."""
    try:
        return [status for status in store.list_status(directory) if not status.is_link]
    except FileNotFoundError:
        return []
