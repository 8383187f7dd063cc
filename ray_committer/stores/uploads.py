"""What a store shows of uploads that are not completed, and of the settings of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ray_committer.stores.answers import PageTokens

if TYPE_CHECKING:  # which imports this module
    from ray_committer.stores.base import StoreOperations


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that is neither completed nor aborted: where its file will be, when it began, and by
    whom, as the store names users."""

    path: str
    id: str
    began_milliseconds: int | None = None
    began_by: str | None = None


@dataclass(frozen=True, slots=True)
class UploadPage:
    """A page of a listing of uploads; `after` is where the next page begins, None after the last one."""

    uploads: list[PendingUpload]
    after: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UploadedParts:
    """The size of the parts of an upload so far, and when the last one came; None if there is none."""

    bytes: int = 0
    newest_milliseconds: int | None = None


class BucketSettings(Protocol):
    """What a bucket is set to, one request each; only ``ray-committer doctor`` asks for it.
    ``PermissionError`` if a setting cannot be read."""

    def encryption(self) -> str | None:
        """The encryption that new objects get, as the store names it; None if the bucket has none."""

    def versioning(self) -> str | None:
        """``Enabled`` or ``Suspended``; None if it was never switched on."""

    def locks_objects(self) -> bool:
        """Whether objects can be locked against their deletion."""

    def place(self) -> str:
        """The region to which requests are made, and the address of the server."""

    def clock_seconds(self) -> float | None:
        """How far the clock of the store is ahead of this machine's; None if it shows no time."""


def upload_pages(store: StoreOperations, path: str) -> Iterator[list[PendingUpload]]:
    """The pending uploads of all files below a directory, a page at a time."""
    places = PageTokens(path)
    page = store.list_uploads(path)
    yield page.uploads
    while page.after is not None:
        page = store.list_uploads(path, places.follow(page.after))
        yield page.uploads


def pending_uploads(store: StoreOperations, path: str) -> Iterator[PendingUpload]:
    """The pending uploads of all files below a directory."""
    for page in upload_pages(store, path):
        yield from page
