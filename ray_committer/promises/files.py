"""What a store promises about files: how they are read, shown, listed and deleted."""

from __future__ import annotations

from contextlib import suppress

from ray_committer.promises.promise import (
    HAS_VERSIONS,
    MISSES_FILES,
    OwnDirectory,
    Promise,
    check,
    refused,
)
from ray_committer.stores.base import StoreOperations

ROUNDS = 3


def _read(own: OwnDirectory) -> str:
    """A file is read as it was last written, and a missing one not at all."""
    for data in (b"first and longer", b"second", b""):
        own.put("a", data)
        check(own.content("a") == data, "a file was read as another than was written last")
    with refused(FileNotFoundError, otherwise="a missing file was read"):
        own.store.read(own.at("missing"))
    return "as last written, also shorter and empty"


def _status(own: OwnDirectory) -> str:
    """The status tells a file from a directory, and both from nothing."""
    file, directory = own.file("d/a", b"12345"), own.status("d")
    shown = (file.path, file.name, file.size, file.is_directory)
    check(shown == (own.at("d/a"), "a", 5, False), "the status of a file does not describe it")
    is_directory = directory is not None and directory.is_directory
    check(is_directory, "the status of a directory does not describe it")
    missing = (own.status("missing"), own.status("d/missing"))
    check(missing == (None, None), "the store has a status of a file that is missing")
    return "a file, a directory and nothing are distinguished"


def _listings(own: OwnDirectory) -> str:
    """Listings show a write and a rename at once."""
    for number in range(ROUNDS):
        first, second = f"a{number}", f"b{number}"
        own.put(first, b"1")
        _check_listed(own, "write", there=first)
        if own.store.has(StoreOperations.publish):
            continue
        own.store.rename(own.at(first), own.at(second))
        _check_listed(own, "rename", there=second, gone=first)
    return "correct at once after writes and renames"


def _listings_are_complete(own: OwnDirectory) -> str:
    """A listing shows all that is in its directory, or below it, and nothing else."""
    for name in ("a", "d/b", "d/e/c", "dd"):
        own.put(name, name.encode())
    own.store.mkdirs(own.at("d/empty"))
    wrong = "a listing did not show exactly what is in its directory"
    check(_listed(own, "d") == {"b": 3, "e": None, "empty": None}, wrong, MISSES_FILES)
    check(_listed(own) == {"a": 1, "d": None, "dd": 2}, wrong, MISSES_FILES)
    below = {one.path: one.size for one in own.store.list_files(own.at("d"))}
    is_right = below == {own.at("d/b"): 3, own.at("d/e/c"): 5}
    check(is_right, "a listing did not show exactly the files below a directory", MISSES_FILES)
    shown = own.store.list_status(own.at("d/e")), own.store.list_files(own.at("d/e"))
    status = [own.status("d/e/c")]
    check(shown == (status, status), "a listing describes a file otherwise than its status does")
    missing = own.at("missing")
    allowed = "a missing directory was listed, as if it were empty"
    with refused(FileNotFoundError, otherwise=allowed, advice=MISSES_FILES):
        own.store.list_status(missing)
    check(own.store.list_files(missing) == [], "files below a missing directory were listed")
    return "all that is in a directory or below it, and nothing else"


def _delete(own: OwnDirectory) -> str:
    """Files and directories can be deleted, and are gone at once, without a file of a similar name."""
    for name in ("d/a", "d/b", "d/e/c", "dd"):
        own.put(name, b"1")
    path, directory = own.at("d/a"), own.at("d")
    _check_listed(own, "write", there="d/a")
    check(own.store.delete_file(path), "a deleted file was there, but the store reports that it was not")
    _check_listed(own, "delete", there="d/b", gone="d/a")
    check(not own.store.delete_file(path), "a deleted file was reported to be there")
    was_there = own.store.delete_directory(directory)
    check(was_there, "a deleted directory was there, but the store reports that it was not")
    check(own.status("d") is None, "a directory was deleted but is still there")
    check(not own.store.delete_directory(directory), "a deleted directory was reported to be there")
    left = [one.path for one in own.store.list_files(own.path)]
    check(left == [own.at("dd")], "a deletion of a directory left a file in it, or deleted others")
    return "a file and a directory are gone at once"


def _deletion_is_bound(own: OwnDirectory) -> str:
    """A deletion that is bound to a version keeps any other."""
    old, new = own.file("a", b"first"), own.file("a", b"second")
    with refused(FileExistsError, otherwise="a deletion removed another version than the requested one"):
        own.store.delete_version(old.path, old.version)
    check(own.content("a") == b"second", "a refused deletion changed a file")
    was_there = own.store.delete_version(new.path, new.version)
    check(was_there, "a deleted version was there, but the store reports that it was not")
    check(own.status("a") is None, "a version was deleted but is still there")
    with suppress(FileExistsError):
        was_there = own.store.delete_version(new.path, new.version)
        check(not was_there, "a deleted version was reported to be there")
    return "another version was refused, the right one is gone"


def _listed(own: OwnDirectory, name: str = "") -> dict[str, int | None]:
    """Return what a listing shows: names and, of files, sizes."""
    listed = own.store.list_status(own.at(name) if name else own.path)
    return {one.name: None if one.is_directory else one.size for one in listed}


def _check_listed(own: OwnDirectory, what: str, *, there: str, gone: str | None = None) -> None:
    """Check that both kinds of listings of the directory of `there` show it, and not `gone`."""
    directory = own.at(there).rpartition("/")[0]
    for listed in (own.store.list_status(directory), own.store.list_files(directory)):
        paths = {status.path for status in listed}
        is_right = own.at(there) in paths and (gone is None or own.at(gone) not in paths)
        check(is_right, f"a listing did not show a {what} that was acknowledged", MISSES_FILES)


PROMISES = (
    Promise("read", _read),
    Promise("status", _status),
    Promise("listings", _listings),
    Promise("listings are complete", _listings_are_complete),
    Promise("delete", _delete),
    Promise("delete is bound to a version", _deletion_is_bound, (HAS_VERSIONS,)),
)
