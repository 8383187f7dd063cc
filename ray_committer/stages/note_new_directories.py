"""Note which directories of the output a job finds missing before it moves them there, for its undo.

The undo takes files back one by one, since other jobs can have added some, and leaves the directories
empty. An empty one that was there before is somebody's partition, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ray_committer.protocol.paths import is_within
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.save_commit_record import is_plain

MOST_NOTED = 10_000
"""Of more directories none is noted: they stay, empty, after an undo."""


def note_new_directories(context: JobContext, record: CommitRecord, directories: Sequence[str]) -> None:
    """Note directories that were missing, before any is made; it is no error if that cannot be done."""
    if 0 < len(directories) <= MOST_NOTED:
        with suppress(OSError):
            context.store.write(_note(context, record), msgspec.json.encode(sorted(directories)))


def remove_new_directories(context: JobContext, record: CommitRecord) -> None:
    """Remove the noted directories that are empty, those inside others first; idempotent."""
    try:
        noted = msgspec.json.decode(context.store.read(_note(context, record)), type=list[str])
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return
    roots = {context.job.destination, *record.allowed_roots}
    # Others can write where it was read: an empty directory elsewhere is none of this job's.
    inside = (path for path in noted if is_plain(path, context.job) and is_within(path, roots))
    for path in sorted(inside, reverse=True):
        if path not in roots:
            with suppress(OSError):
                context.store.remove_empty_directory(path)


def _note(context: JobContext, record: CommitRecord) -> str:
    return context.job.content(f"{record.nonce}-new")
