"""What a store promises about a job's state, by which one process decides a job."""

from __future__ import annotations

from ray_committer.promises.promise import (
    DECIDES_TWICE,
    PUTS_STATES,
    RIVALS,
    OwnDirectory,
    Promise,
    check,
    race,
    refused,
)
from ray_committer.stores.base import STATE_SUFFIX, StoredState, StoreOperations

TURNS = 3

_FIRST, _SECOND, _THIRD = (f"{name}{STATE_SUFFIX}" for name in ("first", "second", "third"))


def _changes_once(own: OwnDirectory) -> str:
    """A state is read as it was put, and one change consumes it, also if several are tried at once."""
    store, path = own.store, own.at("state")
    _check_state(own, None)
    first = _put_first(own)
    _check_state(own, first)
    seen = store.advance(path, first, _SECOND)
    check(seen.text == _SECOND, "a changed state is another than the requested one", DECIDES_TWICE)
    twice = "a state that was changed already was changed again"
    with refused(FileNotFoundError, FileExistsError, otherwise=twice, advice=DECIDES_TWICE):
        store.advance(path, first, _THIRD)
    _check_state(own, seen)
    for turn in range(TURNS):

        def change(number: int, turn: int = turn, seen: StoredState = seen) -> StoredState:
            return store.advance(path, seen, f"{turn}-{number}{STATE_SUFFIX}")

        made = race(change, FileNotFoundError, FileExistsError)
        what = f"of {RIVALS} simultaneous changes of one state {len(made)} succeeded"
        check(len(made) == 1, what, DECIDES_TWICE)
        seen = made[0]
        _check_state(own, seen)
    return f"of {RIVALS} simultaneous changes of one state one succeeded, {TURNS} times"


def _first_replaces_none(own: OwnDirectory) -> str:
    """A first state is put where none is, and only the version that was read is deleted."""
    store, path = own.store, own.at("state")
    first = _put_first(own)
    again = "a first state was put in the place of another"
    with refused(FileExistsError, otherwise=again, advice=DECIDES_TWICE):
        store.advance(path, None, _SECOND)
    _check_state(own, first)
    second = store.advance(path, first, _SECOND)
    stale = "a deletion removed another version of a state than the requested one"
    with refused(FileExistsError, otherwise=stale, advice=DECIDES_TWICE):
        store.delete_version(path, first.version)
    _check_state(own, second)
    was_there = store.delete_version(path, second.version)
    check(was_there, "a state was deleted, but the store reports that it was not there")
    _check_state(own, None)
    return "refused where a state was; only the requested version was deleted"


def _put_first(own: OwnDirectory) -> StoredState:
    """Put a first state as set-up does."""
    path = own.at("state")
    if not own.store.has(StoreOperations.move_directory):
        return own.store.advance(path, None, _FIRST)
    own.put(f"new/{_FIRST}", b"")
    own.store.move_directory(own.at("new"), path)
    return StoredState(_FIRST)


def _check_state(own: OwnDirectory, state: StoredState | None) -> None:
    found = own.store.read_state(own.at("state"))
    check(found == state, "a state was read as another than was put there last", DECIDES_TWICE)


CHANGES_ONCE = Promise("a state changes once", _changes_once)

PROMISES = (
    CHANGES_ONCE,
    Promise("a first state replaces none", _first_replaces_none, (PUTS_STATES,)),
)
