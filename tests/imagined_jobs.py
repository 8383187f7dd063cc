"""Jobs without files, and a store that reports their moves: what do very many files cost a commit?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ray_committer.job_files.job_state import adopt_state
from ray_committer.protocol.manifest import STAMP, FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.opening import is_of_task


class IdleStore(LocalStore):
    """A local store that reports the move of a task's file without one, for jobs without files.

    Its listings count as dear, so that nobody looks whether they are there.
    """

    def __init__(self) -> None:
        super().__init__(StoreSpec("file"))
        self.capabilities = replace(self.capabilities, listing_is_cheap=False)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        if not is_of_task(source):
            super().rename(source, dest, version)


def imagine(job: JobAttempt, *, tasks: int, files: int) -> None:
    """Save manifests of `tasks` tasks with `files` files each that do not exist."""
    stamp = adopt_state(LocalStore(StoreSpec("file")), job).state.stamp
    for task in range(tasks):
        root = job.task_attempt(f"attempt_1_m_{task:06d}_0")
        pairs = (f"p={n % 5}/part-{task:05d}-{n:05d}" for n in range(files))
        entries = [FileEntry(s=f"file:{root}/{p}", d=f"file:{job.destination}/{p}", z=1) for p in pairs]
        manifest = TaskManifest(job_id="job_1", files=entries, extra_data={STAMP: stamp})
        Path(job.manifest(f"task_1_m_{task:06d}")).write_bytes(encode_manifest(manifest))
