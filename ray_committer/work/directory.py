"""Look at a directory of the output, or make it: what is there, and what is in its place or above it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ray_committer.errors import CommitConflictError, CommitStateUnknownError, mark
from ray_committer.protocol.paths import TEMPORARY, ancestors, temporary_directory
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.registry import store_command
from ray_committer.work.sources import list_directory

IS_FILE = "is a file where the job needs a directory"
_LEADS_NOWHERE = "is a link to nothing where the job needs a directory"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is in a directory, None if it is not there, and whether jobs were set up in it; or what is
    `blocking` it, in its place or above it: by path, in words."""

    path: str
    listed: Sequence[FileStatus] | None = None
    has_jobs: bool = False
    blocking: dict[str, str] = field(default_factory=dict)


def look_at(store: StoreOperations, path: str, *, after_jobs: bool = False) -> Seen:
    """List a directory, past each cache; `after_jobs` as `list_after_jobs` does."""
    try:
        if after_jobs:
            return Seen(path, *list_after_jobs(store, path))
        listed = store.list_anew(path)
        return Seen(path, listed, _has_jobs(listed))
    except NotADirectoryError:
        for above in (path, *ancestors(path, "/")):
            status = store.get_status(above)
            if status is not None and not status.is_directory:
                return Seen(path, blocking={above: IS_FILE})
        return Seen(path)
    except OSError as e:
        if not isinstance(e, FileNotFoundError) and e.errno != errno.ELOOP:  # a link to itself
            raise
        return Seen(path, blocking=dict.fromkeys(_link_to_nothing(store, path), _LEADS_NOWHERE))


def list_after_jobs(store: StoreOperations, path: str) -> tuple[list[FileStatus], bool]:
    """List a directory, past each cache; and whether jobs were set up in it, at the moment of the
    listing or before it. So if none were, all files of a job that has ended there are listed (D3)."""
    listed = store.list_page(path)
    if listed is not None:
        return listed, _has_jobs(listed)
    # Of a longer listing, one part can be older than the files of a job, and another part newer than its
    # end. So the question comes first.
    has_jobs = bool(list_directory(store, temporary_directory(path), anew=True))
    return store.list_anew(path), has_jobs


def in_the_way(store: StoreOperations, path: str) -> str:
    """Describe a file, or a link, at `path`, where the job needs a directory."""
    is_link = store.first_link((path,)) is not None
    return look_at(store, path).blocking.get(path, IS_FILE) if is_link else IS_FILE


def blocking_file(store: StoreOperations, path: str) -> str | None:
    """The file or link at `path`, or above it, where a directory is needed; None if there is none."""
    for candidate in (path, *ancestors(path, "/")):
        status = store.get_status(candidate)
        if status is not None:
            return None if status.is_directory else candidate
    return None


def make_directory(store: StoreOperations, path: str) -> None:
    """Make a directory for files of a recorded job; `CommitConflictError` for a file in the way."""
    try:
        store.mkdirs(path)
    except (FileExistsError, FileNotFoundError) as e:  # the latter behind a link to nothing
        blocking = blocking_file(store, path)
        if blocking is None and isinstance(e, FileNotFoundError):
            raise _cannot_be_made(path, e) from e
        where = blocking or path
        raise CommitConflictError(
            f"{mark(where)}: {in_the_way(store, where)}",
            "the job's files are kept: give it up with `ray-committer abort DEST --undo`. Only if no "
            "job has committed what is there, remove it and run the same command: "
            f"{store_command(store.spec, 'rm', where)}",
        ) from e
    except OSError as e:
        raise _cannot_be_made(path, e) from e


def _has_jobs(listed: Iterable[FileStatus]) -> bool:
    return any(status.name == TEMPORARY for status in listed)


def _link_to_nothing(store: StoreOperations, path: str) -> list[str]:
    """The link at or above a `path` that is not there, if the link leads nowhere. The nearest link
    decides: if it leads to a directory, the path behind it is still to be made."""
    link = store.first_link((path, *ancestors(path, "/")))
    status = store.get_status(link) if link is not None else None
    return [] if status is None or status.is_directory else [status.path]


def _cannot_be_made(path: str, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{mark(path)}: could not be made ({error.strerror or error})",
        "fix that and run the same command",
    )
