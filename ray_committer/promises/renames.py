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


def _rename(sandbox: OwnDirectory) -> str:
    """A rename moves a file with its content, and fails if there is no file."""
    source = sandbox.put("from/a", b"content")
    sandbox.store.mkdirs(sandbox.at("to"))
    sandbox.store.rename(source, sandbox.at("to/b"))
    check(sandbox.status("from/a") is None, "after a rename the file is still at the old place")
    check(sandbox.content("to/b") == b"content", "after a rename the file has lost its content")
    with refused(FileNotFoundError, otherwise="a rename of a missing file was not refused"):
        sandbox.store.rename(source, sandbox.at("to/c"))
    check(sandbox.status("to/c") is None, "a refused rename of a missing file created one")
    return "moved a file with its content"


def _never_replaces(sandbox: OwnDirectory) -> str:
    """A rename onto a file is refused, also if it is bound to a version."""
    new, dest = sandbox.file("a", b"new"), sandbox.put("b", b"old")
    for version in dict.fromkeys((None, new.version)):
        with refused(FileExistsError, otherwise="a rename onto an existing file was not refused"):
            sandbox.store.rename(new.path, dest, version)
        kept = (sandbox.content("a"), sandbox.content("b")) == (b"new", b"old")
        check(kept, "a refused rename changed a file")
    return "refused, both files are unchanged"


def _makes_no_parents(sandbox: OwnDirectory) -> str:
    source = sandbox.put("a", b"1")
    allowed = (
        "a rename into a missing directory was not refused, so a late writer can create directories"
    )
    with refused(FileNotFoundError, otherwise=allowed):
        sandbox.store.rename(source, sandbox.at("missing/b"))
    kept = sandbox.content("a") == b"1" and sandbox.status("missing") is None
    check(kept, "a refused rename moved its file, or created the missing directory")
    return "refused, no directory was created"


def _keeps_identity(sandbox: OwnDirectory) -> str:
    """A rename keeps the marks that prove after a crash that it took place."""
    before, dest = sandbox.file("from/a", b"content"), sandbox.at("to/b")
    sandbox.store.mkdirs(sandbox.at("to"))
    sandbox.store.rename(before.path, dest, before.version)
    after = sandbox.store.get_status(dest)
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


def _is_bound(sandbox: OwnDirectory) -> str:
    """A rename that is bound to a version leaves any other where it is."""
    old, new = sandbox.file("a", b"first"), sandbox.file("a", b"second")
    # Two versions of one name: the first is a version that is not there any more.
    check(None not in (old.version, new.version), "a file that was written has no version")
    with refused(FileExistsError, otherwise="a rename moved another version than the requested one"):
        sandbox.store.rename(new.path, sandbox.at("b"), old.version)
    kept = sandbox.content("a") == b"second" and sandbox.status("b") is None
    check(kept, "a refused rename moved its file")
    sandbox.store.rename(new.path, sandbox.at("b"), new.version)
    check(sandbox.content("b") == b"second", "a rename did not move the requested version")
    return "another version was refused, the right one moved"


def _enters_no_directory(sandbox: OwnDirectory) -> str:
    source, directory = sandbox.put("a", b"1"), sandbox.at("d")
    sandbox.store.mkdirs(directory)
    allowed = "a rename onto a directory was not refused"
    with refused(FileExistsError, IsADirectoryError, otherwise=allowed):
        sandbox.store.rename(source, directory)
    kept = sandbox.content("a") == b"1" and sandbox.store.list_status(directory) == []
    check(kept, "a refused rename moved its file")
    return "refused, file and directory are unchanged"


def _one_wins(sandbox: OwnDirectory) -> str:
    """Of several simultaneous renames to one name, exactly one succeeds, and the others do nothing."""
    names = [f"source-{number}" for number in range(RIVALS)]
    sources = [sandbox.put(name, name.encode()) for name in names]

    def rename(number: int) -> str:
        sandbox.store.rename(sources[number], sandbox.at("dest"))
        return names[number]

    won = race(rename, FileExistsError)
    check(len(won) == 1, f"of {RIVALS} simultaneous renames to one name {len(won)} succeeded")
    kept = sandbox.content("dest") == won[0].encode()
    listed = {status.name for status in sandbox.store.list_status(sandbox.path)}
    check(kept and listed == {*names, "dest"} - {*won}, "simultaneous renames to one name lost a file")
    return f"of {RIVALS} simultaneous renames to one name one succeeded"


def _replace(sandbox: OwnDirectory) -> str:
    """The only operation that can replace, for ``_SUCCESS`` and for files that an overwrite names."""
    for data in (b"first", b"second"):
        sandbox.store.replace(sandbox.put("a", data), sandbox.at("b"))
        done = sandbox.content("b") == data and sandbox.status("a") is None
        check(done, "a replacement did not move its file")
    return "replaced a file where that was requested"


def _replacement_is_bound(sandbox: OwnDirectory) -> str:
    """A replacement moves and replaces only the versions that it is bound to, whatever their content."""
    # The same content twice: only the version can distinguish them.
    stale, new = sandbox.file("a", b"new"), sandbox.file("a", b"new")
    old, current = sandbox.file("b", b"old"), sandbox.file("b", b"old")
    with refused(
        FileExistsError, otherwise="a replacement moved another version than the requested one"
    ):
        sandbox.store.replace(new.path, current.path, stale.version)
    with refused(FileExistsError, otherwise="another version was replaced than the requested one"):
        sandbox.store.replace(new.path, current.path, new.version, old=old.version)
    kept = (sandbox.status("a"), sandbox.status("b")) == (new, current)
    check(kept, "a refused replacement changed a file")
    sandbox.store.delete_file(current.path)
    allowed = "a replacement of a version that is gone was not refused"
    with refused(FileExistsError, FileNotFoundError, otherwise=allowed):
        sandbox.store.replace(new.path, current.path, new.version, old=current.version)
    kept = (sandbox.status("a"), sandbox.status("b")) == (new, None)
    check(kept, "a refused replacement changed a file")
    current = sandbox.file("b", b"old")
    sandbox.store.replace(new.path, current.path, new.version, old=current.version)
    done = sandbox.content("b") == b"new" and sandbox.status("a") is None
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
