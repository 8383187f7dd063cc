"""Places on a store that renames a directory with all that is in it, in one step.

A state is the only name in a directory. What is to be frozen, or to go, is renamed whole: a process that
wakes up later finds nothing under the name that it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ray_committer.limits.settle import settle
from ray_committer.places.base import Act, Ask, Places, Request, T
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.state import JobState, new_nonce
from ray_committer.stores.base import StoreOperations, Versions

CLEAN_UPS = 8
"""How many clean-ups of other jobs can remove ``_temporary`` while a set-up makes a directory in it."""
BEGINNINGS = 5


class MovedDirectories(Places):
    """The form for file systems, HDFS, and ADLS with directories."""

    __slots__ = ()

    def state(self, job: JobAttempt) -> str:
        return job.state

    def make_job(self, job: JobAttempt, stamp: str) -> None:
        # The mark is there before the state: no commit of this job can begin without it. The stamp is in
        # its name, so one that a set-up of an earlier job makes when it wakes up is not taken for it.
        marks = [job.mark(stamp)] if self.moves_whole else []
        for directory in (job.packs, *marks):
            self._make(directory)

    def _make(self, directory: str) -> None:
        for _ in range(CLEAN_UPS):
            with suppress(FileNotFoundError):  # another job has just removed ``_temporary``
                self.store.mkdirs(directory)
                return
        self.store.mkdirs(directory)

    def begin_state(self, job: JobAttempt, state: JobState, make: Callable[[Request], T]) -> T:
        """The state's directory is filled first, because any process could fill an empty one. It is made
        elsewhere and moved: made there, it could recreate a job that is gone."""
        for _ in range(BEGINNINGS):
            try:
                return self._begin(job, state, make)
            except FileNotFoundError:  # a clean-up of .gone-* directories may have deleted it
                if self.store.get_status(job.directory) is None:
                    raise
        return self._begin(job, state, make)

    def _begin(self, job: JobAttempt, state: JobState, make: Callable[[Request], T]) -> T:
        temporary = job.gone(state.nonce).directory
        try:
            self.store.mkdirs(temporary)
            self.store.write(join(temporary, state.token), b"")
            self.store.sync(temporary)  # without this, a power cut could leave it empty
            return make(lambda: self.store.move_directory(temporary, job.state))
        except OSError:
            self.store.delete_directory(temporary)
            raise

    def add_content(self, job: JobAttempt, nonce: str, content: bytes) -> str:
        self.store.write(job.content(nonce), content)
        return ""  # a state is no more than a name

    def manifests(self, job: JobAttempt) -> tuple[str, ...]:
        return job.manifests, job.frozen

    def freeze(self, job: JobAttempt) -> bool:
        try:
            settle(lambda: self.store.move_directory(job.manifests, job.frozen))
        except FileNotFoundError:
            pass  # another committer, or a request without an answer, has done it
        except FileExistsError:
            return False
        return True

    def frozen(self, job: JobAttempt) -> str | None:
        return job.frozen

    def keeps_manifests(self, job: JobAttempt) -> bool:
        """On a network file system: a machine that has cached the directory can save one there."""
        return self.store.network_file_system(job.manifests) is not None

    @property
    def waits_in_freeze(self) -> bool:
        return not self.store.capabilities.renames_are_local

    def take_away(self, job: JobAttempt, is_meant: Callable[[JobAttempt], bool]) -> JobAttempt | None:
        store, gone = self.store, job.gone(new_nonce())
        try:
            settle(
                lambda: store.move_directory(job.directory, gone.directory),
                lambda: store.get_status(gone.directory) is not None,
            )
        except FileNotFoundError:
            if store.get_status(gone.directory) is None:
                return None
        if is_meant(gone):
            return gone
        store.mkdirs(job.job_directory)
        # If another job took the old place, this is kept here; a sweep may have taken this by now.
        with suppress(FileExistsError, FileNotFoundError):
            settle(
                lambda: store.move_directory(gone.directory, job.directory),
                lambda: store.get_status(gone.directory) is None,
            )
        return None

    @property
    def moves_whole(self) -> bool:
        return self.store.has(StoreOperations.move_whole)

    @property
    def deletes_versions(self) -> bool:
        return self.store.capabilities.versions is not Versions.NONE

    def read_version(self, path: str) -> tuple[bytes, str | None]:
        status = self.store.get_status(path)
        return self.store.read(path), status.version if status is not None else None

    def taken_away(self, listed: Callable[[], list[JobAttempt]]) -> list[JobAttempt]:
        return listed()

    def take_further(self, gone: JobAttempt) -> JobAttempt | None:
        further = gone.gone(new_nonce())
        try:
            self.store.move_directory(gone.directory, further.directory)
        except FileNotFoundError:  # another process has deleted it, or does
            return None
        return further

    def discard(self, gone: JobAttempt, is_meant: Ask, delete_state: Act, *, is_aborted: bool) -> bool:
        self.store.delete_directory(gone.directory)
        return True

    def clears_attempts(self, job: JobAttempt) -> bool:
        """Not where one deletion of the job's directory takes no longer than one per task attempt; on a
        network file system each name takes a request."""
        return not self.store.capabilities.deletes_trees or self._is_network(job.destination)

    def can_count(self, directory: str) -> bool:
        return self.store.capabilities.renames_are_local and not self._is_network(directory)

    def _is_network(self, path: str) -> bool:
        return self.store.network_file_system(path) is not None
