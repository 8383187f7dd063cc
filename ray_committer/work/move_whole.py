"""Put a directory in place by one rename; if that fails, judge from both ends whether it was moved.

That something is at its place proves nothing: another job can have made that. Only all its files prove
it, each with what identifies it. What cannot be moved whole is moved file by file, and is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ray_committer.errors import (
    CommitStateUnknownError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
    mark,
    why,
)
from ray_committer.limits import waiting
from ray_committer.protocol import recovery
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.whole import BY_ETAG, ByFile, Move, Tally
from ray_committer.stores.base import StoreOperations
from ray_committer.work.directory import make_directory
from ray_committer.work.source_tallies import tally_of
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker

ATTEMPTS = 8
"""The attempts per directory; only a rename that certainly did not happen is repeated."""


class Left(NamedTuple):
    """A directory whose files are to be moved one by one, and the store's words, if it has refused."""

    source: str
    reason: ByFile
    words: str = ""


def move_whole(store: StoreOperations, tasks: str, move: Move) -> recovery.Proof | Left | None:
    """Move one directory from below `tasks`; None if that was done now, else the proof that it was done
    before, or why its files are to be moved one by one: then there is a directory for them.
    `CommitStateUnknownError` if the store does not show what was done."""
    source = join(tasks, move.source)
    is_made = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            store.move_whole(source, move.dest)
            return None
        except (OSError, StoreRefusedError) as e:
            cause = e
        if not _is_there(store, source, move, cause):
            # Not done, and not lost either: who has it is asked once a file misses both its places.
            return _prove(store, move, cause) or Left(move.source, ByFile.THERE)
        match cause:
            case ThrottledError():  # it was asked for long, and would refuse each file
                break
            case StoreUnavailableError():
                waiting.sleep(waiting.REQUEST.after(attempt))
            case FileNotFoundError() if not is_made:  # its parent was seen before, or is another job's
                make_directory(store, parent(move.dest))
                is_made = True
            case _:
                make_directory(store, move.dest)
                is_there = isinstance(cause, FileExistsError)
                return Left(
                    move.source, *((ByFile.THERE,) if is_there else (ByFile.REFUSED, why(cause)))
                )
    raise CommitStateUnknownError(
        f"{mark(source)}: could not be renamed to {mark(move.dest)} ({why(cause)})",
        "fix that and run the same command to finish the commit",
    ) from cause


def delete_leftovers(worker: Worker, tasks: str, moves: Sequence[Move]) -> dict[str, Left]:
    """Delete what no pack names from directories that go whole, where readers would see it; return, by
    source, the directories in which that was refused."""

    def delete(item: tuple[Move, str]) -> Left | None:
        move, name = item
        try:
            worker.store.delete_file(join(tasks, move.source, name))
        except OSError as e:
            return Left(move.source, ByFile.REFUSED, why(e))
        return None

    leftovers = ((move, name) for move in moves for name in move.leftovers)
    stuck = worker.map(delete, leftovers)
    return {left.source: left for left in stuck if left is not None}


def _is_there(store: StoreOperations, source: str, move: Move, cause: Exception) -> bool:
    try:
        return store.get_status(source) is not None
    except OSError as e:
        raise _unknown(move, cause, e) from cause


def _prove(store: StoreOperations, move: Move, cause: Exception) -> recovery.Proof | None:
    """The proof that all files of a directory are in place, and no others; from one listing."""
    try:
        tally = tally_of(list_directory(store, move.dest, anew=True), move.proof)
    except OSError as e:
        raise _unknown(move, cause, e) from cause
    if not Tally(move.files, total=move.total).shows(tally):
        return None
    return recovery.Proof.ETAG if move.proof == BY_ETAG else recovery.Proof.MODIFICATION_TIME


def _unknown(move: Move, cause: Exception, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{mark(move.dest)}: it is not known whether the directory arrived: the rename failed "
        f"({why(cause)}) and the store cannot show it ({why(error)})",
        "fix that and run the same command",
    )
