"""Read and change the state of a job attempt: only this state decides.

A change names and consumes the state that it was made from, so of several processes one succeeds. The
others read the new state of the job. Source: "The states of a job" in ``docs/protocol.md``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ray_committer.places.choose import places_of
from ray_committer.places.settle import settle
from ray_committer.protocol.paths import FROZEN, MANIFESTS, JobAttempt
from ray_committer.protocol.state import (
    UNSTAMPED,
    JobState,
    Phase,
    TableBase,
    new_nonce,
    new_state,
    parse_token,
)
from ray_committer.stores.base import StoredState, StoreOperations

_CONSUMED = (FileExistsError, FileNotFoundError)


@dataclass(frozen=True, slots=True)
class Seen:
    """A state as it was read; a change must name exactly this state."""

    state: JobState
    stored: StoredState

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def content(self) -> str:
        """What was stored with the state, on a store that keeps it as an object; else empty."""
        return self.stored.text.partition("\n")[2]


class StateChangedError(Exception):
    """The state to be changed is no longer there; `now` is the job's present state.

    `now` is None if the job is gone, also if another job of the same id, with another stamp, is there.
    """

    def __init__(self, now: Seen | None, seen: Seen | None = None) -> None:
        super().__init__(now, seen)
        is_another = now is not None and seen is not None and now.state.stamp != seen.state.stamp
        self.now = None if is_another else now


def read_state(store: StoreOperations, job: JobAttempt) -> Seen | None:
    """Read the state of a job attempt in one request; None if it has no state or does not exist."""
    path = places_of(store).state(job)
    try:
        stored = store.read_state(path)
    except NotADirectoryError:
        return None
    except OSError as e:
        if e.errno == errno.ENODATA and _is_remade(store, job):
            return None
        raise
    return None if stored is None else Seen(parse_token(stored.text.partition("\n")[0], path), stored)


def _is_remade(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether a process that slept until the job was removed has made the job's directory again.

    That happens on stores whose writes make directories. A real job has manifests or frozen manifests.
    """
    try:
        names = {status.name for status in store.list_status(job.directory)}
    except FileNotFoundError:
        return True
    return names.isdisjoint((MANIFESTS, FROZEN))


def begin_state(store: StoreOperations, job: JobAttempt, state: JobState) -> Seen:
    """Give a job attempt its first state.

    ``FileExistsError`` if it has a state. ``FileNotFoundError`` if the job attempt does not exist, on a
    store that moves directories.
    """
    return places_of(store).begin_state(job, state, partial(_settled, store, job, state))


def adopt_state(store: StoreOperations, job: JobAttempt, phase: Phase = Phase.OPEN) -> Seen | None:
    """Read the state of a job attempt; if Hadoop's committer set the job up, give it a state in `phase`.

    The tasks of such a job know no stamp. Anything read of it before this call must be read again.
    None if the job is gone.
    """
    seen = read_state(store, job)
    if seen is not None:
        return seen
    first = new_state(stamp=UNSTAMPED)
    try:
        return begin_state(store, job, first if phase is Phase.OPEN else first.to(phase, new_nonce()))
    except _CONSUMED:  # another process was faster, or has removed the job
        return read_state(store, job)


def advance(
    store: StoreOperations,
    job: JobAttempt,
    seen: Seen,
    phase: Phase,
    nonce: str | None = None,
    *,
    content: str = "",
) -> Seen:
    """Change the state from `seen` to `phase`, under the given nonce or a new one.

    A store that keeps the state as an object also keeps the `content` in it, until the next change.
    `StateChangedError` if another process has changed it. After every failure the state is read again
    to see whether it was changed.
    """
    return _change(store, job, seen, seen.state.to(phase, nonce or new_nonce()), content)


def advance_if_unchanged(
    store: StoreOperations, job: JobAttempt, seen: Seen, phase: Phase
) -> Seen | None:
    """`advance`, for a change that is not needed any more if another process was faster: None then."""
    try:
        return advance(store, job, seen, phase)
    except StateChangedError:
        return None


def join_table(store: StoreOperations, job: JobAttempt, seen: Seen, table: TableBase) -> Seen:
    """Note the table that an open job belongs to; `StateChangedError` as `advance`."""
    return _change(store, job, seen, seen.state.at(table, new_nonce()))


def _change(
    store: StoreOperations, job: JobAttempt, seen: Seen, new: JobState, content: str = ""
) -> Seen:
    path, text = places_of(store).state(job), f"{new.token}\n{content}" if content else new.token
    try:
        return _settled(store, job, new, lambda: store.advance(path, seen.stored, text))
    except OSError as e:
        now = read_state(store, job)
        if isinstance(e, _CONSUMED) or now is None or now.state.nonce != seen.state.nonce:
            raise StateChangedError(now, seen) from e
        raise


def delete_state(store: StoreOperations, job: JobAttempt, seen: Seen) -> None:
    """Delete the state, if it is still `seen`, on a store that keeps it as an object."""
    with suppress(FileExistsError):
        store.delete_version(places_of(store).state(job), seen.stored.version)


def _settled(
    store: StoreOperations, job: JobAttempt, new: JobState, request: Callable[[], StoredState | None]
) -> Seen:
    """Make a change; if the answer does not confirm it, check whether it was made."""
    answers: list[StoredState | None] = []

    def look() -> Seen | None:
        now = read_state(store, job)
        return now if now is not None and now.state.nonce == new.nonce else None

    try:
        settle(lambda: answers.append(request()), lambda: look() is not None)
    except OSError:
        if (now := look()) is not None:
            return now
        raise
    stored = answers[0] if answers else None
    now = look() if stored is None else Seen(new, stored)
    if now is None:
        path = places_of(store).state(job)
        raise FileExistsError(errno.EEXIST, "was changed by another process", path)
    return now
