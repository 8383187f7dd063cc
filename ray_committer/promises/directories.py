"""What a store promises about directories, and about files that are taken away together or put aside."""

from __future__ import annotations

import errno
from collections.abc import Callable

from ray_committer.promises.promise import (
    DELETES_LISTED,
    HAS_ONE_NAMESPACE,
    MOVES_DIRECTORIES,
    MOVES_WHOLE,
    RIVALS,
    SETS_ASIDE,
    OwnDirectory,
    Promise,
    check,
    marks_of,
    race,
    refused,
)


def _directories(sandbox: OwnDirectory) -> str:
    """A directory is made with those above it, once or again, and is there and empty."""
    for _ in range(2):
        sandbox.store.mkdirs(sandbox.at("x/y/z"))
    status = sandbox.status("x/y/z")
    check(status is not None and status.is_directory, "a directory that was made is not there")
    check(sandbox.store.list_status(sandbox.at("x/y/z")) == [], "a directory that was made is not empty")
    above = [(status.name, status.is_directory) for status in sandbox.store.list_status(sandbox.at("x"))]
    check(above == [("y", True)], "a directory above one that was made does not show it")
    return "made with those above it, also if it is there"


def _a_file_blocks(sandbox: OwnDirectory) -> str:
    """A file in the place of a directory, or above it, is named and kept."""
    sandbox.put("a", b"1")
    for name in ("a", "a/b"):
        with refused(FileExistsError, otherwise="a directory was made in the place of a file"):
            sandbox.store.mkdirs(sandbox.at(name))
    check(sandbox.content("a") == b"1", "a refused directory changed the file in its place")
    return "refused, the file is unchanged"


def _remove_empty(sandbox: OwnDirectory) -> str:
    """Only an empty directory is removed."""
    sandbox.put("d/a", b"1")
    sandbox.store.mkdirs(sandbox.at("e"))
    was_removed = sandbox.store.remove_empty_directory(sandbox.at("d"))
    kept = not was_removed and sandbox.content("d/a") == b"1"
    check(kept, "a directory with a file was removed, or reported to be")
    check(sandbox.store.remove_empty_directory(sandbox.at("e")), "an empty directory was not removed")
    check(sandbox.status("e") is None, "an empty directory was removed but is still there")
    again = sandbox.store.remove_empty_directory(sandbox.at("e"))
    check(not again, "a missing directory was reported to be removed")
    return "an empty one is gone, one with a file is unchanged"


def _move_directory(sandbox: OwnDirectory) -> str:
    """A directory is moved with all it holds, and never over or into another."""
    for name in ("d/a/b", "dd/a name that begins like the directory's"):
        sandbox.put(name, name.encode())
    move = sandbox.store.move_directory
    _moves_once(sandbox, move)
    moved = _files(sandbox)
    with refused(FileExistsError, otherwise="the move of a directory onto another was not refused"):
        move(sandbox.at("e"), sandbox.at("dd"))
    check(_files(sandbox) == moved, "a refused move of a directory changed something")
    return "moved with all it holds, refused where another is"


def _move_whole(sandbox: OwnDirectory) -> str:
    """A directory comes with all it holds to a name where nothing is; otherwise nothing changes."""
    sandbox.store.mkdirs(sandbox.at("empty"))
    for name in ("d/a", "d/b/c", "full/a", "file"):
        sandbox.put(name, name.encode())
    move, before = sandbox.store.move_whole, _files(sandbox)
    for name, error in _NEVER_MOVED_TO.items():
        try:
            with refused(error, otherwise=f"a directory was moved where it must not be ({name})"):
                move(sandbox.at("d"), sandbox.at(name))
        except OSError as e:
            if e.errno != errno.ENOTSUP:
                raise
            check(_files(sandbox) == before, "a refused move of a directory changed something")
            return "not possible in this file system: files are moved one by one"
    is_kept = _files(sandbox) == before and sandbox.status("missing") is None
    check(is_kept, "a refused move of a directory changed something")
    _moves_once(sandbox, move)
    return f"moved with all it holds, refused where anything is; {_one_moves(sandbox)}"


_NEVER_MOVED_TO: dict[str, type[OSError]] = {
    **dict.fromkeys(("empty", "full", "full/a", "file"), FileExistsError),
    "missing/d": FileNotFoundError,
    "d/b/d": OSError,
}


def _moves_once(sandbox: OwnDirectory, move: Callable[[str, str], None]) -> None:
    """The directory ``d`` is moved to ``e``, and not a second time."""
    before = _files(sandbox)
    move(sandbox.at("d"), sandbox.at("e"))
    with refused(FileNotFoundError, otherwise="the move of a missing directory was not refused"):
        move(sandbox.at("d"), sandbox.at("f"))
    check(sandbox.status("d") is None, "a directory that was moved is still there")
    is_whole = _files(sandbox) == _moved(before, "d", "e")
    check(is_whole, "the move of a directory lost or changed a file, in it or beside it")


def _one_moves(sandbox: OwnDirectory) -> str:
    """Of several directories that are moved to one name at the same time, one is there whole."""
    for number in range(RIVALS):
        sandbox.put(f"{number}/a", b"%d" % number)
    before = _files(sandbox)

    def move(number: int) -> int:
        sandbox.store.move_whole(sandbox.at(f"{number}"), sandbox.at("one"))
        return number

    won = race(move, FileExistsError)
    check(len(won) == 1, f"of {RIVALS} simultaneous moves to one name {len(won)} succeeded")
    is_whole = _files(sandbox) == _moved(before, f"{won[0]}", "one")
    kept = is_whole and sandbox.content("one/a") == b"%d" % won[0]
    check(kept, "simultaneous moves of directories to one name lost or changed a file")
    return f"of {RIVALS} simultaneous moves to one name one succeeded"


def _files(sandbox: OwnDirectory) -> dict[str, object]:
    """All files, by their names in the directory, with what a move must keep."""
    start = len(sandbox.at(""))
    listed = sandbox.store.list_files(sandbox.path)
    return {status.path[start:]: (status.size, marks_of(status)) for status in listed}


def _moved(files: dict[str, object], source: str, dest: str) -> dict[str, object]:
    """The files as they must be after the directory `source` was moved to `dest`."""
    inside = f"{source}/"
    names = {name: f"{dest}/{name.removeprefix(inside)}" for name in files if name.startswith(inside)}
    return {names.get(name, name): marks for name, marks in files.items()}


def _spares_what_is_new(sandbox: OwnDirectory) -> str:
    """Directories are deleted as they were listed, without what was written there since."""
    store, both = sandbox.store, (sandbox.at("d"), sandbox.at("f"))
    for name in ("d/a", "d/e/b", "f/c", "dd"):
        sandbox.put(name, b"old")

    def write_anew() -> bool:
        for name in ("d/a", "f/g"):
            sandbox.put(name, b"new")
        return True

    is_done = store.delete_listed(both, lambda: False)
    kept = not is_done and len(store.list_files(sandbox.path)) == 4
    check(kept, "directories were deleted, or reported to be, although a condition did not hold")
    check(store.delete_listed(both, write_anew), "a deletion of directories was not reported")
    left = {status.path: store.read(status.path) for status in store.list_files(sandbox.path)}
    expected = {sandbox.at("d/a"): b"new", sandbox.at("f/g"): b"new", sandbox.at("dd"): b"old"}
    check(left == expected, "a deletion of directories took what was new, or left what was old")
    for _ in range(2):
        check(store.delete_listed(both, lambda: True), "a deletion of directories was not reported")
    statuses = [sandbox.status("d"), sandbox.status("f")]
    check(statuses == [None, None], "deleted directories are still there")
    return "what was listed is gone, what was written since is there"


def _set_aside(sandbox: OwnDirectory) -> str:
    """A file is put aside in one step, and never where no directory is."""
    path = sandbox.put("a", b"old")
    with refused(FileNotFoundError, otherwise="a file was put aside into a missing directory"):
        sandbox.store.set_aside(path, sandbox.at("aside/0"))
    kept = sandbox.content("a") == b"old" and sandbox.status("aside") is None
    check(kept, "a refused putting aside changed something")
    sandbox.store.mkdirs(sandbox.at("aside"))
    sandbox.store.set_aside(path, sandbox.at("aside/0"))
    done = sandbox.status("a") is None and sandbox.content("aside/0") == b"old"
    check(done, "a file was not put aside with its content")
    with refused(FileNotFoundError, otherwise="a missing file was put aside"):
        sandbox.store.set_aside(path, sandbox.at("aside/1"))
    return "put aside with its content, refused without a directory"


MOVES_WHOLE_DIRECTORIES = Promise("move a directory whole", _move_whole, (MOVES_WHOLE,))

PROMISES = (
    Promise("directories", _directories),
    Promise("a file blocks a directory", _a_file_blocks, (HAS_ONE_NAMESPACE,)),
    Promise("remove an empty directory", _remove_empty),
    Promise("move a directory", _move_directory, (MOVES_DIRECTORIES,)),
    MOVES_WHOLE_DIRECTORIES,
    Promise("delete spares what is new", _spares_what_is_new, (DELETES_LISTED,)),
    Promise("set aside", _set_aside, (SETS_ASIDE,)),
)
