"""End an upload that must not be completed, on a store where a file is an upload until then.

The answer to an abort proves nothing: Amazon confirms it for hours also if the upload was completed, and
so do other servers. So the upload is looked at before and after, and then its destination.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.base import FileStatus, StoreOperations

ABORTS = 5
"""An abort while a part is uploaded can have to be repeated, by the reference of Amazon S3."""


class Ended(NamedTuple):
    """The end of an upload: whether it `was_pending`, and the `file` that may have come of it."""

    was_pending: bool
    file: FileStatus | None


def abort_pending(store: StoreOperations, path: str, upload: str) -> bool:
    """Abort an upload if the store still has it; return whether it had."""
    if not store.is_pending(path, upload):
        return False
    store.abort_upload(path, upload)
    return True


def end_upload(
    store: StoreOperations, path: str, upload: str, before: FileStatus | None = None
) -> Ended:
    """Abort an upload until the store does not have it any more, then look at its destination. `before`
    is what was there before this call: it cannot have come of an upload that is still pending."""
    was_pending = False
    for _ in range(ABORTS):
        if not abort_pending(store, path, upload):
            break
        was_pending = True
    else:
        raise StoreUnavailableError(path, f"upload {upload} is still there after {ABORTS} aborts")
    # After the upload is gone: nothing can complete it any more, so what is there now is all that came
    # of it.
    file = store.get_status(path)
    if file is not None and (file.is_directory or (was_pending and file == before)):
        file = None
    return Ended(was_pending, file)
