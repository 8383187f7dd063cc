"""Places on a store where a file is an upload until it is completed, such as S3.

A job has few files there: its state, manifests, and copies of these, which its tasks make themselves. So
one listing shows all of it.
"""

from __future__ import annotations

from ray_committer.places.objects import FlatObjects
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import FileStatus


class Uploads(FlatObjects):
    """The form for S3."""

    __slots__ = ()

    def makes_copies(self, job: JobAttempt) -> bool:
        return False  # each task has saved one

    def can_count(self, directory: str) -> bool:
        return False  # the files of its tasks are uploads

    @property
    def cleanup_ends_attempts(self) -> bool:
        return True

    def list_job(self, directory: str) -> tuple[FileStatus, ...] | None:
        return tuple(self.store.list_objects(directory))
