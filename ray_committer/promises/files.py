"""What a store promises about files: how they are read, shown, listed and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from ray_committer.promises.promise import (
    HAS_VERSIONS,
    MISSES_FILES,
    OwnDirectory,
    Promise,
    check,
    refused,
)
from ray_committer.stores.base import FileStatus, StoreOperations, file_pages

ROUNDS = 3


def _read(sandbox: OwnDirectory) -> str:
    """A file is read as it was last written, and a missing one not at all."""
    for data in (b"first and longer", b"second", b""):
        sandbox.put("a", data)
        check(sandbox.content("a") == data, "a file was read as another than was written last")
    with refused(FileNotFoundError, otherwise="a missing file was read"):
        sandbox.store.read(sandbox.at("missing"))
    return "as last written, also shorter and empty"


def _status(sandbox: OwnDirectory) -> str:
    """The status tells a file from a directory, and both from nothing."""
    file, directory = sandbox.file("d/a", b"12345"), sandbox.status("d")
    shown = (file.path, file.name, file.size, file.is_directory)
    check(shown == (sandbox.at("d/a"), "a", 5, False), "the status of a file does not describe it")
    is_directory = directory is not None and directory.is_directory
    check(is_directory, "the status of a directory does not describe it")
    missing = (sandbox.status("missing"), sandbox.status("d/missing"))
    check(missing == (None, None), "the store has a status of a file that is missing")
    return "a file, a directory and nothing are distinguished"


def _listings(sandbox: OwnDirectory) -> str:
    """Listings show a write and a rename at once."""
    for number in range(ROUNDS):
        first, second = f"a{number}", f"b{number}"
        sandbox.put(first, b"1")
        _check_listed(sandbox, "write", there=first)
        if sandbox.store.has(StoreOperations.publish):
            continue
        sandbox.store.rename(sandbox.at(first), sandbox.at(second))
        _check_listed(sandbox, "rename", there=second, gone=first)
    return "correct at once after writes and renames"


def _listings_are_complete(sandbox: OwnDirectory) -> str:
    """A listing shows all that is in its directory, or below it, and nothing else."""
    for name in ("a", "d/b", "d/e/c", "dd"):
        sandbox.put(name, name.encode())
    sandbox.store.mkdirs(sandbox.at("d/empty"))
    wrong = "a listing did not show exactly what is in its directory"
    check(_listed(sandbox, "d") == {"b": 3, "e": None, "empty": None}, wrong, MISSES_FILES)
    check(_listed(sandbox) == {"a": 1, "d": None, "dd": 2}, wrong, MISSES_FILES)
    files = {sandbox.at("d/b"): 3, sandbox.at("d/e/c"): 5}
    below = {status.path: status.size for status in sandbox.store.list_files(sandbox.at("d"))}
    paged = chain.from_iterable(file_pages(sandbox.store, sandbox.at("d")))
    is_right = below == files == {status.path: status.size for status in paged}
    check(is_right, "a listing did not show exactly the files below a directory", MISSES_FILES)
    shown = sandbox.store.list_status(sandbox.at("d/e")), sandbox.store.list_files(sandbox.at("d/e"))
    status = [sandbox.status("d/e/c")]
    check(shown == (status, status), "a listing describes a file otherwise than its status does")
    page = sandbox.store.list_page(sandbox.at("d"))
    named = sandbox.store.find_names(sandbox.at("d"), ("b", "e", "missing", "d"))
    is_right = page is None or _sizes(page) == {"b": 3, "e": None, "empty": None}
    check(is_right, "one page of a listing did not show exactly what is in a directory", MISSES_FILES)
    is_right = named is None or _sizes(named) == {"b": 3, "e": None}
    check(is_right, "names that are in a directory were not found there", MISSES_FILES)
    missing = sandbox.at("missing")
    allowed = "a missing directory was listed, as if it were empty"
    with refused(FileNotFoundError, otherwise=allowed, advice=MISSES_FILES):
        sandbox.store.list_status(missing)
    check(sandbox.store.list_files(missing) == [], "files below a missing directory were listed")
    return "all that is in a directory or below it, and nothing else"


def _delete(sandbox: OwnDirectory) -> str:
    """Files and directories can be deleted, and are gone at once, without a file of a similar name."""
    for name in ("d/a", "d/b", "d/e/c", "dd"):
        sandbox.put(name, b"1")
    path, directory = sandbox.at("d/a"), sandbox.at("d")
    _check_listed(sandbox, "write", there="d/a")
    was_there = sandbox.store.delete_file(path)
    check(was_there, "a deleted file was there, but the store reports that it was not")
    _check_listed(sandbox, "delete", there="d/b", gone="d/a")
    check(not sandbox.store.delete_file(path), "a deleted file was reported to be there")
    was_there = sandbox.store.delete_directory(directory)
    check(was_there, "a deleted directory was there, but the store reports that it was not")
    check(sandbox.status("d") is None, "a directory was deleted but is still there")
    check(not sandbox.store.delete_directory(directory), "a deleted directory was reported to be there")
    left = [status.path for status in sandbox.store.list_files(sandbox.path)]
    check(left == [sandbox.at("dd")], "a deletion of a directory left a file in it, or deleted others")
    return "a file and a directory are gone at once"


def _deletion_is_bound(sandbox: OwnDirectory) -> str:
    """A deletion that is bound to a version keeps any other."""
    old, new = sandbox.file("a", b"first"), sandbox.file("a", b"second")
    with refused(FileExistsError, otherwise="a deletion removed another version than the requested one"):
        sandbox.store.delete_version(old.path, old.version)
    check(sandbox.content("a") == b"second", "a refused deletion changed a file")
    was_there = sandbox.store.delete_version(new.path, new.version)
    check(was_there, "a deleted version was there, but the store reports that it was not")
    check(sandbox.status("a") is None, "a version was deleted but is still there")
    with suppress(FileExistsError):
        was_there = sandbox.store.delete_version(new.path, new.version)
        check(not was_there, "a deleted version was reported to be there")
    return "another version was refused, the right one is gone"


def _listed(sandbox: OwnDirectory, name: str = "") -> dict[str, int | None]:
    return _sizes(sandbox.store.list_status(sandbox.at(name) if name else sandbox.path))


def _sizes(listed: Iterable[FileStatus]) -> dict[str, int | None]:
    return {status.name: None if status.is_directory else status.size for status in listed}


def _check_listed(sandbox: OwnDirectory, what: str, *, there: str, gone: str | None = None) -> None:
    """Check that both kinds of listings of the directory of `there` show it, and not `gone`."""
    directory = sandbox.at(there).rpartition("/")[0]
    for listed in (sandbox.store.list_status(directory), sandbox.store.list_files(directory)):
        paths = {status.path for status in listed}
        is_right = sandbox.at(there) in paths and (gone is None or sandbox.at(gone) not in paths)
        check(is_right, f"a listing did not show a {what} that was acknowledged", MISSES_FILES)


PROMISES = (
    Promise("read", _read),
    Promise("status", _status),
    Promise("listings", _listings),
    Promise("listings are complete", _listings_are_complete),
    Promise("delete", _delete),
    Promise("delete is bound to a version", _deletion_is_bound, (HAS_VERSIONS,)),
)
