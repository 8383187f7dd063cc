"""A promise of a store: its name, and a check on files of its own that shows whether it is kept.

`testing.StoreContract` runs each promise as a test, and `ray-committer doctor` reports it as a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ray_committer.protocol.paths import join, parent
from ray_committer.stores.base import FileStatus, StoreOperations, Versions

RIVALS = 4

LOSES_FILES = "do not commit to this store: a commit could lose or replace files"
MISSES_FILES = "do not commit to this store: task manifests could be missed"
DECIDES_TWICE = "do not commit to this store: a job could be both committed and aborted"

T = TypeVar("T")


class BrokenPromiseError(Exception):
    """The store did not do what it must: `what` it did, and the `advice` for its user."""

    def __init__(self, what: str, advice: str = LOSES_FILES) -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


class WeakPromiseError(BrokenPromiseError):
    """The store did what it must, but its answers leave a risk: a warning for its user, no failure."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a store has that makes a promise. `otherwise` says what such a store does instead, and
    `advice` what its user has to know about it."""

    holds: Callable[[StoreOperations], bool]
    otherwise: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a store must do, if it meets the `conditions`.

    `check` returns what was measured, in words. It raises `BrokenPromiseError` if the store does not do
    it, and the store's own errors if it could not find out.
    """

    name: str
    check: Callable[[OwnDirectory], str]
    conditions: tuple[Condition, ...] = ()

    def unmet(self, store: StoreOperations) -> Condition | None:
        """Return the first condition that does not hold; None if the store makes this promise."""
        return next((condition for condition in self.conditions if not condition.holds(store)), None)


HAS_DIRECTORIES = Condition(
    lambda store: store.capabilities.has_directories, "the store has no directories"
)
HAS_ONE_NAMESPACE = Condition(
    lambda store: store.capabilities.has_directories and store.has(StoreOperations.move_directory),
    "a file and a directory can have the same name",
)
MAKES_NO_PARENTS = Condition(
    lambda store: not store.capabilities.rename_makes_parents,
    "a rename creates the directories that it needs, so a late writer can leave empty ones",
    "do nothing: such a writer can only move files that the job was going to move",
)
HAS_VERSIONS = Condition(
    lambda store: store.capabilities.versions is not Versions.NONE,
    "the store has no versions; a changed file is found by its time and size",
)
MOVES_DIRECTORIES = Condition(
    lambda store: store.has(StoreOperations.move_directory), "the store does not move directories"
)
MOVES_WHOLE = Condition(
    lambda store: store.has(StoreOperations.move_whole),
    "the store moves no directory whole, so its files are moved one by one",
)
PUTS_STATES = Condition(
    lambda store: not store.has(StoreOperations.move_directory),
    "a state comes into place with its directory",
)
DELETES_LISTED = Condition(
    lambda store: not store.has(StoreOperations.move_directory),
    "a directory is moved away before it is deleted",
)
RENAMES = Condition(
    lambda store: not store.has(StoreOperations.publish), "the store completes uploads instead"
)
COMPLETES_UPLOADS = Condition(
    lambda store: store.has(StoreOperations.publish), "the store renames files instead"
)
SETS_ASIDE = Condition(
    lambda store: store.has(StoreOperations.set_aside), "the store deletes files where they are"
)


@dataclass(frozen=True, slots=True)
class OwnDirectory:
    """A directory of a store that one check has for itself; it is there, and empty."""

    store: StoreOperations
    path: str

    def at(self, name: str) -> str:
        """Return the path of `name` in this directory."""
        return join(self.path, name)

    def put(self, name: str, data: bytes) -> str:
        """Write a file, and the directories above it that are below this one; return its path."""
        path = self.at(name)
        if "/" in name:
            self.store.mkdirs(parent(path))
        self.store.write(path, data)
        return path

    def file(self, name: str, data: bytes) -> FileStatus:
        """Write a file and return its status."""
        status = self.store.get_status(self.put(name, data))
        if status is None:
            raise BrokenPromiseError("a file that was written is not there")
        return status

    def status(self, name: str) -> FileStatus | None:
        """Return the status of `name`; None if nothing is there."""
        return self.store.get_status(self.at(name))

    def content(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is not there."""
        try:
            return self.store.read(self.at(name))
        except FileNotFoundError:
            return None


def check(holds: bool, otherwise: str, advice: str = LOSES_FILES) -> None:
    """Raise `BrokenPromiseError` with what the store did `otherwise`, unless it `holds`."""
    if not holds:
        raise BrokenPromiseError(otherwise, advice)


@contextmanager
def refused(*errors: type[OSError], otherwise: str, advice: str = LOSES_FILES) -> Iterator[None]:
    """Expect that the store refuses what is done inside with one of `errors`."""
    try:
        yield
    except errors:
        return
    raise BrokenPromiseError(otherwise, advice)


def race(change: Callable[[int], T], *refusals: type[OSError]) -> list[T]:
    """Call `change` in several threads at once, each with its number; return the results of the calls
    that the store did not refuse."""

    def attempt(number: int) -> list[T]:
        try:
            return [change(number)]
        except refusals:
            return []

    with ThreadPoolExecutor(RIVALS) as pool:
        return [result for results in pool.map(attempt, range(RIVALS)) for result in results]


def marks_of(status: FileStatus) -> dict[str, object]:
    """Return the marks of a file that a move must keep; with an etag, some stores set a new time."""
    time = status.modified_milliseconds if status.etag is None else None
    marks = {"etag": status.etag, "modification time": time, "file id": status.file_id}
    return {name: mark for name, mark in marks.items() if mark is not None}


def lost_marks(before: FileStatus, after: FileStatus) -> list[str]:
    """Return the names of the marks that a move has changed."""
    marks = marks_of(after)
    return [name for name, mark in marks_of(before).items() if mark != marks.get(name)]
