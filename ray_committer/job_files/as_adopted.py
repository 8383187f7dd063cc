"""A store that shows a job of Hadoop's S3A committer as its adoption would leave it; for a dry run."""

from __future__ import annotations

from typing import Any, cast

from ray_committer.job_files.adopt_job import adopted_manifest, is_open
from ray_committer.job_files.magic_jobs import LeftJob
from ray_committer.stores.at_once import streamed
from ray_committer.stores.base import FileStatus, StoreOperations


def as_adopted(store: StoreOperations, left: LeftJob) -> StoreOperations:
    """Return a store on which the pendingsets of a job are its manifests, unless others count already;
    nothing is written."""
    return cast("StoreOperations", _AsAdopted(store, left)) if is_open(store, left.job) else store


class _AsAdopted:
    def __init__(self, store: StoreOperations, left: LeftJob) -> None:
        self._store = store
        self._left = left
        self._found = {left.job.manifest(one[1].task_id or ""): one for one in left.pendingsets}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_status(self, path: str) -> list[FileStatus]:
        job = self._left.job
        if path == job.manifests:
            return list(streamed(self._store, self._status, self._found))
        if path == job.directory:
            return [FileStatus(job.manifests, is_directory=True)]
        return self._store.list_status(path)

    def _status(self, path: str) -> FileStatus:
        return FileStatus(path, is_directory=False, size=len(self.read(path)))

    def read(self, path: str) -> bytes:
        found = self._found.get(path)
        if found is None:
            return self._store.read(path)
        return adopted_manifest(self._store, self._left, found)
