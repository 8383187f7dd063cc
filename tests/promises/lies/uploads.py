"""Servers of S3's API that break a promise about uploads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.stores.base import FileStatus
from ray_committer.stores.s3.store import S3Store
from ray_committer.stores.uploads import UploadPage
from tests.servers.fake_s3 import FakeS3, direct_store


def lying(methods: dict[str, Callable[..., Any]], **server: Any) -> S3Store:
    """A store some methods of which are replaced; each gets the store and its arguments."""
    store = direct_store(FakeS3(**server))
    for name, method in methods.items():
        setattr(store, name, lambda *args, method=method: method(store, *args))
    return store


def is_visible_at_once(store: S3Store, path: str, stamp: str | None) -> str:
    store.write(path, b"")
    return S3Store.begin_upload(store, path, stamp)


def forgets_stamp(store: S3Store, path: str, _: str | None) -> str:
    return S3Store.begin_upload(store, path, None)


def completes_twice(store: S3Store, action: CompleteUpload, old: str | None = None) -> Answer:
    answer = S3Store.publish(store, action, old)
    if answer is Answer.NO_UPLOAD:
        store.write(action.dest, b"again")
        return Answer.DONE
    return answer


def aborts_nothing(store: S3Store, path: str, upload: str) -> None:
    pass


def lists_neighbours(store: S3Store, path: str, after: tuple[str, str] | None = None) -> UploadPage:
    page = S3Store.list_uploads(store, "/", after)
    return UploadPage([one for one in page.uploads if one.path.startswith(path)], page.after)


def deletes_marks_alone(store: S3Store, listed: Sequence[FileStatus]) -> None:
    S3Store.delete_objects(store, [one for one in listed if one.path.endswith("/")])


def copies(store: S3Store, source: str, dest: str, *_: Any, **__: Any) -> None:
    store.write(dest, store.read(source))


UPLOAD_LIES: dict[str, tuple[Callable[[], S3Store], set[str]]] = {
    "visible at once": (
        lambda: lying({"begin_upload": is_visible_at_once}),
        {
            "complete an upload",
            "completion never replaces",
            "completion again",
            "abort an upload",
            "pending uploads are listed",
            "one of many completions wins",
        },
    ),
    "forgets the stamp": (lambda: lying({"begin_upload": forgets_stamp}), {"complete an upload"}),
    "replaces": (
        lambda: direct_store(FakeS3(ignores=frozenset({"complete"}))),
        {"completion never replaces", "one of many completions wins"},
    ),
    "completes twice": (
        lambda: lying({"publish": completes_twice}, forgets=True),
        {"completion again", "abort an upload"},
    ),
    "aborts nothing": (
        lambda: lying({"abort_upload": aborts_nothing}),
        {"abort an upload", "pending uploads are listed"},
    ),
    "lists neighbours": (
        lambda: lying({"list_uploads": lists_neighbours}),
        {"pending uploads are listed"},
    ),
    "deletes marks alone": (
        lambda: lying({"delete_objects": deletes_marks_alone}),
        {"listed objects are deleted"},
    ),
    "copies": (lambda: lying({"rename": copies}), {"no rename"}),
    "replaces new files": (lambda: lying({"create": S3Store.write}), {"one of many new files wins"}),
}
"""Stores, and the promises about uploads that each breaks."""
