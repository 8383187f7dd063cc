"""Doctor checks of a store on the doctor's own files: one line per promise that a commit needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from ray_committer.doctor_checks.lines import Line, Verdict
from ray_committer.doctor_checks.scratch import Scratch
from ray_committer.errors import RayCommitterError
from ray_committer.protocol.paths import join
from ray_committer.stores.base import (
    STATE_SUFFIX,
    FileStatus,
    StoredState,
    StoreOperations,
    Versions,
    WarnsOfCosts,
    delete_version,
    move_directory,
)

ROUNDS = 20
SLOW_SECONDS = 1.0
DECISIONS, RIVALS = 3, 4

_USE_ANOTHER = "do not commit to this store: a commit could lose or replace files"


@dataclass
class _WrongError(Exception):
    """The store did not do what it must."""

    measured: str
    advice: str = _USE_ANOTHER
    verdict: Verdict = Verdict.FAILED


Look = Callable[[Scratch], str]


def examine_store(
    store: StoreOperations, destination: str, in_scratch: Callable[[Scratch], list[Line]]
) -> list[Line]:
    """Check everything in a scratch directory, which is then removed; `in_scratch` can use it before."""
    scratch = Scratch(store, destination)
    lines = [_safely("write", scratch.make)]
    try:
        if lines[0].verdict is Verdict.OK:
            lines += [_look(name, look, scratch) for name, look in LOOKS]
            lines += in_scratch(scratch)
    finally:
        lines.append(_safely("clean-up", scratch.remove))
    return lines


def what_it_is(store: StoreOperations, shown: str) -> Line:
    """Report which store it is, and whether it is known to rename safely."""
    if store.capabilities.risk is not None:
        advice = "use a store that is known to rename safely"
        return Line("store", Verdict.WARNING, store.capabilities.risk, advice)
    return Line("store", Verdict.OK, f"{shown}: renames are atomic, conditional and never copy")


def costs(store: StoreOperations) -> Line:
    """Report settings of the store that make a commit more expensive than necessary."""
    if store.capabilities.risk is not None:
        return Line("costs", Verdict.NOTE, "not checked: it is not known what this store bills")
    if not isinstance(store, WarnsOfCosts):
        return Line("costs", Verdict.OK, "no setting of such a store makes a commit more expensive")
    try:
        warnings = store.cost_warnings()
    except OSError as e:
        what = f"the store's settings could not be read ({_words(e)})"
        return Line("costs", Verdict.WARNING, what, "check soft delete and versioning yourself")
    if warnings:
        return Line("costs", Verdict.WARNING, "; ".join(warnings))
    return Line("costs", Verdict.OK, "neither soft delete nor versioning doubles the cost of a commit")


def _look(name: str, look: Look, scratch: Scratch) -> Line:
    return _safely(name, lambda: Line(name, Verdict.OK, look(scratch)))


def _safely(name: str, line: Callable[[], Line]) -> Line:
    """Return the line of a check, also if it fails."""
    try:
        return line()
    except _WrongError as e:
        return Line(name, e.verdict, e.measured, e.advice)
    except PermissionError as e:
        advice = "grant permission to read, write, rename and delete below the destination"
        return Line(name, Verdict.FAILED, _words(e), advice)
    except OSError as e:
        return Line(name, Verdict.FAILED, _words(e), "fix that and run the same command")
    except RayCommitterError as e:
        return Line(name, Verdict.FAILED, e.what, e.advice)


def _words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error} ({type(error).__name__})"


def _rename(scratch: Scratch) -> str:
    """A rename moves a file with its content."""
    store, source, dest = scratch.store, scratch.file("r/a", b"content").path, scratch.at("r/b")
    store.rename(source, dest)
    if store.get_status(source) is not None:
        raise _WrongError("after a rename the file is still at the old place")
    if store.read(dest) != b"content":
        raise _WrongError("after a rename the file has another content")
    return "moved a file with its content"


def _never_replaces(scratch: Scratch) -> str:
    store = scratch.store
    source, dest = scratch.file("n/a", b"new").path, scratch.file("n/b", b"old").path
    try:
        store.rename(source, dest)
    except FileExistsError:
        pass
    else:
        raise _WrongError("a rename replaced an existing file")
    if (store.read(source), store.read(dest)) != (b"new", b"old"):
        raise _WrongError("a refused rename changed a file")
    return "refused, both files are unchanged"


def _makes_no_parents(scratch: Scratch) -> str:
    store = scratch.store
    if not store.capabilities.has_directories:
        return "the store has no directories"
    if store.capabilities.rename_makes_parents:
        raise _WrongError(
            "a rename creates the directories that it needs, so a late writer can leave empty ones",
            "do nothing: such a writer can only move files that the job was going to move",
            Verdict.NOTE,
        )
    source, above = scratch.file("p/a", b"1").path, scratch.at("p/missing")
    try:
        store.rename(source, join(above, "b"))
    except FileNotFoundError:
        pass
    else:
        raise _WrongError(
            "a rename created the missing directory above its destination, and so can a late writer"
        )
    if store.get_status(above) is not None or store.get_status(source) is None:
        raise _WrongError("a refused rename changed something")
    return "refused, no directory was created"


def _identity(scratch: Scratch) -> str:
    """A rename keeps the marks that identify a file."""
    store, before = scratch.store, scratch.file("i/a", b"content")
    dest = scratch.at("i/b")
    store.rename(before.path, dest, before.version)
    after = store.get_status(dest)
    if after is None:
        raise _WrongError("after a rename the file is nowhere")
    kept = [name for name, value in _marks(before).items() if value is not None]
    lost = [name for name in kept if _marks(before)[name] != _marks(after)[name]]
    if before.etag is not None and "etag" not in lost:
        return "the etag is kept"  # only this is checked, because some stores set a new time
    if lost:
        raise _WrongError(
            f"a rename changed the {' and the '.join(lost)}, which must prove a rename after a crash"
        )
    if kept in ([], ["file id"]):
        raise _WrongError(
            "only the size identifies a file after a crash",
            "files of the same size cannot be distinguished after a crash: validate the output then",
            Verdict.WARNING,
        )
    return f"the {' and the '.join(kept)} are kept"


def _marks(status: FileStatus) -> dict[str, object]:
    return {
        "etag": status.etag,
        "modification time": status.modified_milliseconds,
        "file id": status.file_id,
    }


def _version(scratch: Scratch) -> str:
    """A rename and a deletion that are bound to a version leave any other where it is."""
    store = scratch.store
    if store.capabilities.versions is Versions.NONE:
        return "the store has no versions; a changed source is found by its time and size"
    old, new = scratch.file("v/a", b"first"), scratch.file("v/a", b"second")
    try:
        store.rename(new.path, scratch.at("v/b"), old.version)
    except FileExistsError:
        pass
    else:
        raise _WrongError("a rename moved another version than the requested one")
    try:
        delete_version(store, new.path, old.version)
    except FileExistsError:
        pass
    else:
        raise _WrongError("a deletion removed another version than the requested one")
    store.rename(new.path, scratch.at("v/c"), new.version)
    return "another version was refused, the right one moved"


def _state(scratch: Scratch) -> str:
    """Of several simultaneous changes of one state of a job, exactly one succeeds."""
    store, path = scratch.store, scratch.at("state")
    if store.capabilities.moves_directories:
        scratch.file(f"new/first{STATE_SUFFIX}", b"")
        move_directory(store, scratch.at("new"), path)
        seen = StoredState(f"first{STATE_SUFFIX}")
    else:
        seen = store.advance(path, None, f"first{STATE_SUFFIX}")
    for turn in range(DECISIONS):

        def change(number: int, turn: int = turn, seen: StoredState = seen) -> StoredState | None:
            with suppress(FileExistsError, FileNotFoundError):
                return store.advance(path, seen, f"{turn}-{number}{STATE_SUFFIX}")
            return None

        with ThreadPoolExecutor(RIVALS) as pool:
            made = [after for after in pool.map(change, range(RIVALS)) if after is not None]
        if len(made) != 1 or store.read_state(path) != made[0]:
            raise _WrongError(
                f"of {RIVALS} simultaneous changes of one state {len(made)} succeeded",
                "do not commit to this store: a job could be both committed and aborted",
            )
        seen = made[0]
    return f"of {RIVALS} simultaneous changes of one state one succeeded, {DECISIONS} times"


def _listing(scratch: Scratch) -> str:
    """Listings show a write and a rename at once."""
    store, directory = scratch.store, scratch.at("l")
    store.mkdirs(directory)
    for number in range(5):
        first, second = join(directory, f"a{number}"), join(directory, f"b{number}")
        store.write(first, b"1")
        _check_listed(store, directory, "write", there=first)
        store.rename(first, second)
        _check_listed(store, directory, "rename", there=second, gone=first)
    return "correct at once after writes and renames"


def _delete(scratch: Scratch) -> str:
    """Files and directories can be deleted, and are gone at once."""
    store, directory = scratch.store, scratch.at("d")
    path, other = scratch.file("d/a", b"1").path, scratch.file("d/b", b"1").path
    _check_listed(store, directory, "write", there=path)
    if not store.delete_file(path):
        raise _WrongError(f"{path}: was there, but the store reports that it was not")
    _check_listed(store, directory, "delete", there=other, gone=path)
    if not store.delete_directory(directory) or store.get_status(directory) is not None:
        raise _WrongError(f"{directory}: was deleted but is still there")
    return "a file and a directory are gone at once"


def _check_listed(
    store: StoreOperations, directory: str, what: str, *, there: str, gone: str | None = None
) -> None:
    for listed in (store.list_status(directory), store.list_files(directory)):
        paths = {status.path for status in listed}
        if there not in paths or gone in paths:
            raise _WrongError(
                f"a listing did not show a {what} that was acknowledged",
                "do not commit to this store: task manifests could be missed",
            )


def _replace(scratch: Scratch) -> str:
    """The only operation that can replace, for ``_SUCCESS`` and for files that an overwrite names."""
    store = scratch.store
    source, dest = scratch.file("s/a", b"new").path, scratch.file("s/b", b"old").path
    store.replace(source, dest)
    if store.read(dest) != b"new" or store.get_status(source) is not None:
        raise _WrongError("a file that should be replaced was not")
    if store.capabilities.versions is Versions.NONE:
        return "replaced a file where that was requested"
    old, now = scratch.file("s/c", b"old"), scratch.file("s/c", b"of another writer")
    new = scratch.file("s/d", b"new")
    try:
        store.replace(new.path, now.path, new.version, old=old.version)
    except FileExistsError:
        pass
    else:
        raise _WrongError("another version was replaced than the requested one")
    store.replace(new.path, now.path, new.version, old=now.version)
    return "replaced a file where that was requested, and no other version"


def _latency(scratch: Scratch) -> str:
    """Measure the milliseconds of a rename and of a listing, one at a time."""
    store, ends = scratch.store, (scratch.file("t/a", b"1").path, scratch.at("t/b"))
    renames = [_seconds(store.rename, ends[n % 2], ends[1 - n % 2]) for n in range(ROUNDS)]
    lists = [_seconds(store.list_status, scratch.path) for _ in range(ROUNDS)]
    measured = f"rename {_spread(renames)}, list {_spread(lists)}"
    if median(renames) > SLOW_SECONDS or median(lists) > SLOW_SECONDS:
        raise _WrongError(measured, "run the commit closer to the store", Verdict.WARNING)
    return measured


def _seconds(request: Callable[..., object], *paths: str) -> float:
    started = time.monotonic()
    request(*paths)
    return time.monotonic() - started


def _spread(seconds: list[float]) -> str:
    """Return median and 95th percentile in milliseconds."""
    p95 = sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
    return f"{1000 * median(seconds):.2f} ms (p95 {1000 * p95:.2f})"


LOOKS: tuple[tuple[str, Look], ...] = (
    ("rename", _rename),
    ("rename never replaces", _never_replaces),
    ("rename makes no parents", _makes_no_parents),
    ("rename keeps identity", _identity),
    ("rename is bound to a version", _version),
    ("a state changes once", _state),
    ("replace", _replace),
    ("listings", _listing),
    ("delete", _delete),
    ("latency", _latency),
)
