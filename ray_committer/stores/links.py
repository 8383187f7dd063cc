"""Refuse symbolic links below `_temporary`: what is behind one may belong to others."""

from __future__ import annotations

from collections.abc import Iterable

from ray_committer.errors import LinkedPathError, mark
from ray_committer.stores.base import StoreOperations


def refuse_links(store: StoreOperations, paths: Iterable[str]) -> None:
    """`LinkedPathError` if one of `paths` is a symbolic link; its target does not belong to the job."""
    if (link := store.first_link(paths)) is not None:
        raise linked_path(link)


def linked_path(path: str) -> LinkedPathError:
    """The error for a symbolic link at `path`."""
    return LinkedPathError(
        f"{mark(path)}: is a symbolic link, and what is behind it may belong to others, so nothing was "
        "done",
        "look where it leads, remove the link, and run the same command",
    )
