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


def _changes_once(sandbox: OwnDirectory) -> str:
    """A state is read as it was put, and one change consumes it, also if several are tried at once."""
    store, path = sandbox.store, sandbox.at("state")
    _check_state(sandbox, None)
    first = _put_first(sandbox)
    _check_state(sandbox, first)
    current = store.advance(path, first, _SECOND)
    check(current.text == _SECOND, "a changed state is another than the requested one", DECIDES_TWICE)
    twice = "a state that was changed already was changed again"
    with refused(FileNotFoundError, FileExistsError, otherwise=twice, advice=DECIDES_TWICE):
        store.advance(path, first, _THIRD)
    _check_state(sandbox, current)
    # Several turns: one race can be won by chance on a store that decides twice.
    for turn in range(TURNS):

        def change(number: int, turn: int = turn, current: StoredState = current) -> StoredState:
            return store.advance(path, current, f"{turn}-{number}{STATE_SUFFIX}")

        made = race(change, FileNotFoundError, FileExistsError)
        what = f"of {RIVALS} simultaneous changes of one state {len(made)} succeeded"
        check(len(made) == 1, what, DECIDES_TWICE)
        current = made[0]
        _check_state(sandbox, current)
    return f"of {RIVALS} simultaneous changes of one state one succeeded, {TURNS} times"


def _first_replaces_none(sandbox: OwnDirectory) -> str:
    """A first state is put where none is, and only the version that was read is deleted."""
    store, path = sandbox.store, sandbox.at("state")
    first = _put_first(sandbox)
    again = "a first state was put in the place of another"
    with refused(FileExistsError, otherwise=again, advice=DECIDES_TWICE):
        store.advance(path, None, _SECOND)
    _check_state(sandbox, first)
    second = store.advance(path, first, _SECOND)
    stale = "a deletion removed another version of a state than the requested one"
    with refused(FileExistsError, otherwise=stale, advice=DECIDES_TWICE):
        store.delete_version(path, first.version)
    _check_state(sandbox, second)
    was_there = store.delete_version(path, second.version)
    check(was_there, "a state was deleted, but the store reports that it was not there")
    _check_state(sandbox, None)
    return "refused where a state was; only the requested version was deleted"


def _put_first(sandbox: OwnDirectory) -> StoredState:
    """Put a first state as set-up does."""
    path = sandbox.at("state")
    if not sandbox.store.has(StoreOperations.move_directory):
        return sandbox.store.advance(path, None, _FIRST)
    sandbox.put(f"new/{_FIRST}", b"")
    sandbox.store.move_directory(sandbox.at("new"), path)
    return StoredState(_FIRST)


def _check_state(sandbox: OwnDirectory, state: StoredState | None) -> None:
    stored = sandbox.store.read_state(sandbox.at("state"))
    check(stored == state, "a state was read as another than was put there last", DECIDES_TWICE)


CHANGES_ONCE = Promise("a state changes once", _changes_once)

PROMISES = (CHANGES_ONCE, Promise("a first state replaces none", _first_replaces_none, (PUTS_STATES,)))
