"""What a store promises about a rename and a replacement, which move the files of every commit."""

from __future__ import annotations

from ray_committer.promises.promise import (
    HAS_DIRECTORIES,
    HAS_ONE_NAMESPACE,
    HAS_VERSIONS,
    MAKES_NO_PARENTS,
    RENAMES,
    RIVALS,
    BrokenPromiseError,
    OwnDirectory,
    Promise,
    WeakPromiseError,
    check,
    lost_marks,
    marks_of,
    race,
    refused,
)


def _rename(own: OwnDirectory) -> str:
    """A rename moves a file with its content, and fails if there is no file."""
    source = own.put("from/a", b"content")
    own.store.mkdirs(own.at("to"))
    own.store.rename(source, own.at("to/b"))
    check(own.status("from/a") is None, "after a rename the file is still at the old place")
    check(own.content("to/b") == b"content", "after a rename the file has lost its content")
    with refused(FileNotFoundError, otherwise="a rename of a missing file was not refused"):
        own.store.rename(source, own.at("to/c"))
    check(own.status("to/c") is None, "a refused rename of a missing file created one")
    return "moved a file with its content"


def _never_replaces(own: OwnDirectory) -> str:
    """A rename onto a file is refused, also if it is bound to a version."""
    new, dest = own.file("a", b"new"), own.put("b", b"old")
    for version in dict.fromkeys((None, new.version)):
        with refused(FileExistsError, otherwise="a rename onto an existing file was not refused"):
            own.store.rename(new.path, dest, version)
        kept = (own.content("a"), own.content("b")) == (b"new", b"old")
        check(kept, "a refused rename changed a file")
    return "refused, both files are unchanged"


def _makes_no_parents(own: OwnDirectory) -> str:
    source = own.put("a", b"1")
    allowed = (
        "a rename into a missing directory was not refused, so a late writer can create directories"
    )
    with refused(FileNotFoundError, otherwise=allowed):
        own.store.rename(source, own.at("missing/b"))
    kept = own.content("a") == b"1" and own.status("missing") is None
    check(kept, "a refused rename moved its file, or created the missing directory")
    return "refused, no directory was created"


def _keeps_identity(own: OwnDirectory) -> str:
    """A rename keeps the marks that prove after a crash that it took place."""
    before, dest = own.file("from/a", b"content"), own.at("to/b")
    own.store.mkdirs(own.at("to"))
    own.store.rename(before.path, dest, before.version)
    after = own.store.get_status(dest)
    if after is None:
        raise BrokenPromiseError("after a rename the file is nowhere")
    check(after.size == before.size, "a rename changed the size of a file")
    marks = marks_of(before)
    if lost := lost_marks(before, after):
        words = " and the ".join(lost)
        raise BrokenPromiseError(
            f"a rename changed the {words}, which must prove a rename after a crash"
        )
    if not marks.keys() - {"file id"}:
        raise WeakPromiseError(
            "only the size identifies a file after a crash",
            "files of the same size cannot be distinguished after a crash: validate the output then",
        )
    return f"the {' and the '.join(marks)} {'is' if len(marks) == 1 else 'are'} kept"


def _is_bound(own: OwnDirectory) -> str:
    """A rename that is bound to a version leaves any other where it is."""
    old, new = own.file("a", b"first"), own.file("a", b"second")
    check(None not in (old.version, new.version), "a file that was written has no version")
    with refused(FileExistsError, otherwise="a rename moved another version than the requested one"):
        own.store.rename(new.path, own.at("b"), old.version)
    kept = own.content("a") == b"second" and own.status("b") is None
    check(kept, "a refused rename moved its file")
    own.store.rename(new.path, own.at("b"), new.version)
    check(own.content("b") == b"second", "a rename did not move the requested version")
    return "another version was refused, the right one moved"


def _enters_no_directory(own: OwnDirectory) -> str:
    source, directory = own.put("a", b"1"), own.at("d")
    own.store.mkdirs(directory)
    allowed = "a rename onto a directory was not refused"
    with refused(FileExistsError, IsADirectoryError, otherwise=allowed):
        own.store.rename(source, directory)
    kept = own.content("a") == b"1" and own.store.list_status(directory) == []
    check(kept, "a refused rename moved its file")
    return "refused, file and directory are unchanged"


def _one_wins(own: OwnDirectory) -> str:
    """Of several simultaneous renames to one name, exactly one succeeds, and the others do nothing."""
    names = [f"source-{number}" for number in range(RIVALS)]
    sources = [own.put(name, name.encode()) for name in names]

    def rename(number: int) -> str:
        own.store.rename(sources[number], own.at("dest"))
        return names[number]

    won = race(rename, FileExistsError)
    check(len(won) == 1, f"of {RIVALS} simultaneous renames to one name {len(won)} succeeded")
    kept = own.content("dest") == won[0].encode()
    listed = {one.name for one in own.store.list_status(own.path)}
    check(kept and listed == {*names, "dest"} - {*won}, "simultaneous renames to one name lost a file")
    return f"of {RIVALS} simultaneous renames to one name one succeeded"


def _replace(own: OwnDirectory) -> str:
    """The only operation that can replace, for ``_SUCCESS`` and for files that an overwrite names."""
    for data in (b"first", b"second"):
        own.store.replace(own.put("a", data), own.at("b"))
        done = own.content("b") == data and own.status("a") is None
        check(done, "a replacement did not move its file")
    return "replaced a file where that was requested"


def _replacement_is_bound(own: OwnDirectory) -> str:
    """A replacement moves and replaces only the versions that it is bound to, whatever their content."""
    stale, new = own.file("a", b"new"), own.file("a", b"new")
    old, now = own.file("b", b"old"), own.file("b", b"old")
    with refused(
        FileExistsError, otherwise="a replacement moved another version than the requested one"
    ):
        own.store.replace(new.path, now.path, stale.version)
    with refused(FileExistsError, otherwise="another version was replaced than the requested one"):
        own.store.replace(new.path, now.path, new.version, old=old.version)
    kept = (own.status("a"), own.status("b")) == (new, now)
    check(kept, "a refused replacement changed a file")
    own.store.delete_file(now.path)
    allowed = "a replacement of a version that is gone was not refused"
    with refused(FileExistsError, FileNotFoundError, otherwise=allowed):
        own.store.replace(new.path, now.path, new.version, old=now.version)
    kept = (own.status("a"), own.status("b")) == (new, None)
    check(kept, "a refused replacement changed a file")
    now = own.file("b", b"old")
    own.store.replace(new.path, now.path, new.version, old=now.version)
    done = own.content("b") == b"new" and own.status("a") is None
    check(done, "a replacement did not replace the requested version")
    return "replaced the requested version, and no other"


ONE_WINS = Promise("one of many renames wins", _one_wins, (RENAMES,))

PROMISES = (
    Promise("rename", _rename, (RENAMES,)),
    Promise("rename never replaces", _never_replaces, (RENAMES,)),
    Promise("rename makes no parents", _makes_no_parents, (RENAMES, HAS_DIRECTORIES, MAKES_NO_PARENTS)),
    Promise("rename keeps identity", _keeps_identity, (RENAMES,)),
    Promise("rename is bound to a version", _is_bound, (RENAMES, HAS_VERSIONS)),
    Promise("rename enters no directory", _enters_no_directory, (RENAMES, HAS_ONE_NAMESPACE)),
    ONE_WINS,
    Promise("replace", _replace, (RENAMES,)),
    Promise("replace is bound to a version", _replacement_is_bound, (RENAMES, HAS_VERSIONS)),
)
