"""Put one file in place by a rename; if that fails, judge from both ends whether the file was moved.

Optimistic: both ends are looked at only if the rename fails. A file never counts as moved without proof.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    RayCommitterError,
    ThrottledError,
    mark,
    why,
)
from ray_committer.limits import waiting
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Judgement, Proof, Verdict, judge_rename, prove
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.directory import make_directory
from ray_committer.work.entries import STAYS, OldFileStaysError

_HOPELESS = (PermissionError, FileNotFoundError, ThrottledError)  # the last was retried for long


def rename_entry(
    store: StoreOperations,
    entry: Rename,
    attempts: int,
    old: ReplacedFile | None = None,
    *,
    on_retry: Callable[[], None] = lambda: None,
) -> Proof | None:
    """Rename one file; arguments, proof and errors as `publish_entry`."""
    # No look before the rename: it never replaces, so it may be tried at any time, by several processes
    # at once, and most often it is the only request for this file.
    is_made = False
    for attempt in range(1, attempts + 1):
        try:
            store.rename(entry.source, entry.dest, entry.version)
            return None
        except OSError as e:
            cause, is_hopeless = e, isinstance(e, _HOPELESS)
            # Whatever the error was: a request without an answer may have been carried out, and
            # FileExistsError can mean that another process of this job has moved the file.
            judgement, dest = _judge_again(store, entry, e, old)
            # Only now, and only for the file that the record names: what another program has put there
            # since is a conflict, not replaced.
            if old is not None and _gives_way(judgement, dest, old):
                refused = _replace(store, entry, old)
                if refused is None:
                    return None
                cause, is_hopeless = refused, False
                judgement, dest = _judge_again(store, entry, refused, old)  # it may be done by now
                # The store's own word that this old file stays; the caller holds the new file back and
                # goes on with the others (D5).
                if refused.errno in STAYS and _gives_way(judgement, dest, old):
                    raise OldFileStaysError(refused) from refused
            if judgement.verdict is Verdict.DONE:
                return judgement.proof
            # The file is where the task wrote it. So what is missing is the directory that it goes to:
            # it was seen before the record, and somebody has removed it since.
            is_missing = judgement.verdict is Verdict.NOT_DONE and isinstance(cause, FileNotFoundError)
            if is_missing and not is_made:
                make_directory(store, parent(entry.dest))
                is_made, is_hopeless = True, False
            # Both ends have just shown that the file was not moved, so the rename may be asked again.
            is_open = judgement.verdict is Verdict.NOT_DONE and not is_hopeless
            if not is_open and not _gives_way(judgement, dest, old):
                raise _error(entry, judgement, cause) from cause
            if attempt == attempts:
                raise _error(entry, Judgement(Verdict.NOT_DONE), cause) from cause
            on_retry()
            waiting.sleep(waiting.REQUEST.after(attempt))
    raise AssertionError("the last attempt returns or raises")


def require_source(store: StoreOperations, entry: Rename) -> None:
    """`CommitStateUnknownError` unless the task's file is where the task wrote it."""
    source = store.get_status(entry.source)
    if source is None or source.is_directory:
        raise CommitStateUnknownError(
            f"{mark(entry.source)}: is gone, but must replace {mark(entry.dest)}, which is still there",
            "put the file back and run the same command, or give up the commit with abort --undo",
        )
    _require_unchanged(entry, source)


def _require_unchanged(entry: Rename, source: FileStatus) -> None:
    if prove(entry.expected, source.observation()) is None:
        raise CommitStateUnknownError(
            f"{mark(entry.source)}: was changed after its manifest was saved, so it must not replace "
            f"{mark(entry.dest)}",
            "put back the task's file and run the same command",
        )


def _judge(store: StoreOperations, entry: Rename, cause: OSError) -> tuple[Judgement, FileStatus | None]:
    # The source first: a file that a worker moves between the two looks shows at both ends, and is never
    # taken for lost.
    try:
        source, dest = store.get_status(entry.source), store.get_status(entry.dest)
    except OSError as e:
        raise CommitStateUnknownError(
            f"{mark(entry.dest)}: it is not known whether the file arrived: the rename failed "
            f"({why(cause)}) and the store cannot show the files ({why(e)})",
            "fix that and run the same command",
        ) from cause
    if any(status is not None and status.is_directory for status in (source, dest)):
        return Judgement(Verdict.CONFLICT), None
    # The version was saved before the first rename: another one is a late attempt's file, whose rows no
    # manifest names.
    if dest is None and source is not None and source.version != (entry.version or source.version):
        raise CommitStateUnknownError(
            f"{mark(entry.source)}: was written again after its manifest was loaded, so it was not "
            "moved",
            "put back the task's file and run the same command",
        ) from cause
    return judge_rename(
        entry.expected, source.observation() if source else None, dest.observation() if dest else None
    ), dest


def _judge_again(
    store: StoreOperations, entry: Rename, cause: OSError, old: ReplacedFile | None
) -> tuple[Judgement, FileStatus | None]:
    """Judge, and judge again before an error: a lost worker may move the file between the looks."""
    for _ in range(2):
        judgement, dest = _judge(store, entry, cause)
        # An old file of the same size proves nothing about the new one.
        if judgement.proof is Proof.SIZE_ONLY and _is_old(dest, old):
            judgement = Judgement(Verdict.LOST)
        if judgement.verdict in (Verdict.DONE, Verdict.NOT_DONE) or _gives_way(judgement, dest, old):
            break
    return judgement, dest


def _gives_way(judgement: Judgement, dest: FileStatus | None, old: ReplacedFile | None) -> bool:
    return judgement.verdict is Verdict.CONFLICT and _is_old(dest, old)


def _is_old(dest: FileStatus | None, old: ReplacedFile | None) -> bool:
    if dest is None or old is None:
        return False
    return (dest.size, dest.modified_milliseconds, dest.etag, dest.version) == (
        old.size,
        old.modified_milliseconds,
        old.etag,
        old.version,
    )


def _replace(store: StoreOperations, entry: Rename, old: ReplacedFile) -> OSError | None:
    """Replace the recorded old file, in its recorded version, by the new one, if that is what its
    manifest says. None, or the error: the store's, or that the new file is gone."""
    source = store.get_status(entry.source)
    if source is None:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), entry.source)
    _require_unchanged(entry, source)
    try:
        store.replace(entry.source, entry.dest, entry.version, old=old.version)
    except OSError as e:
        return e
    return None


def _error(entry: Rename, judgement: Judgement, cause: OSError) -> RayCommitterError:
    if judgement.verdict is Verdict.CONFLICT and isinstance(cause, FileNotFoundError):
        return CommitConflictError(
            f"{mark(entry.dest)}: is not what its manifest says, and the file that the task wrote as "
            f"{mark(entry.source)} is gone: it was changed before or after it was moved",
            "nothing was deleted: put the task's file here and run the same command",
        )
    if judgement.verdict is Verdict.CONFLICT:
        return CommitConflictError(
            f"{mark(entry.dest)}: is there already and is not the file that the task wrote as "
            f"{mark(entry.source)}",
            "nothing was overwritten: move it away and run the same command",
        )
    if judgement.verdict is Verdict.LOST:
        return CommitStateUnknownError(
            f"{mark(entry.source)}: is gone and {mark(entry.dest)} is not there either, so another "
            "program deleted the file",
            "nothing was cleaned up: put the file back at either path and run the same command",
        )
    return CommitStateUnknownError(
        f"{mark(entry.source)}: could not be renamed to {mark(entry.dest)} ({cause.strerror or cause})",
        "fix that and run the same command to finish the commit",
    )
