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

from ray_committer.limits.settle import settle
from ray_committer.places.choose import places_of
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
    """The state to be changed is no longer there; its `now` is the job's present state. `now` is None if
    the job is gone, also if another job of the same id, with another stamp, is there."""

    def __init__(self, current: Seen | None, last: Seen | None = None) -> None:
        super().__init__(current, last)
        is_another = current is not None and last is not None and current.state.stamp != last.state.stamp
        self.now = None if is_another else current


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


def is_job_of(store: StoreOperations, job: JobAttempt, stamp: str) -> bool:
    """Whether the job attempt that set-up gave this `stamp` is there; by one request."""
    current = read_state(store, job)
    return current is not None and current.state.stamp == stamp


def _is_remade(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether a process that slept until the job was removed has made the job's directory again. That
    happens on stores whose writes make directories. A real job has manifests or frozen manifests."""
    try:
        names = {status.name for status in store.list_status(job.directory)}
    except FileNotFoundError:
        return True
    return names.isdisjoint((MANIFESTS, FROZEN))


def begin_state(store: StoreOperations, job: JobAttempt, state: JobState) -> Seen:
    """Give a job attempt its first state. ``FileExistsError`` if it has a state. ``FileNotFoundError``
    if the job attempt does not exist, on a store that moves directories."""
    return places_of(store).begin_state(job, state, partial(_settled, store, job, state))


def adopt_state(store: StoreOperations, job: JobAttempt, phase: Phase = Phase.OPEN) -> Seen | None:
    """Read the state of a job attempt; if Hadoop's committer set the job up, give it a state in `phase`.
    Its tasks know no stamp, and what was read of it before must be read again. None if it is gone."""
    current = read_state(store, job)
    if current is not None:
        return current
    # A job that Hadoop set up has no state until it is decided; from here on it is as any other.
    first = new_state(stamp=UNSTAMPED)
    try:
        return begin_state(store, job, first if phase is Phase.OPEN else first.to(phase, new_nonce()))
    except _CONSUMED:  # another process was faster, or has removed the job
        return read_state(store, job)


def advance(
    store: StoreOperations,
    job: JobAttempt,
    last: Seen,
    phase: Phase,
    nonce: str | None = None,
    *,
    content: str = "",
    since: int | None = None,
) -> Seen:
    """Change the state from `last` to `phase`, under the given nonce or a new one. A store that keeps
    the state as an object also keeps the `content` in it, until the next change. `StateChangedError` if
    another process has changed it. After a failure the state is read again. `since` is the time of a
    declaration that was written before."""
    return _change(store, job, last, last.state.to(phase, nonce or new_nonce(), since), content)


def advance_if_unchanged(
    store: StoreOperations, job: JobAttempt, last: Seen, phase: Phase
) -> Seen | None:
    """`advance`, for a change that is not needed any more if another process was faster: None then."""
    try:
        return advance(store, job, last, phase)
    except StateChangedError:
        return None


def join_table(store: StoreOperations, job: JobAttempt, last: Seen, table: TableBase) -> Seen:
    """Note the table that an open job belongs to; `StateChangedError` as `advance`."""
    return _change(store, job, last, last.state.at(table, new_nonce()))


def _change(
    store: StoreOperations, job: JobAttempt, last: Seen, new: JobState, content: str = ""
) -> Seen:
    path, text = places_of(store).state(job), f"{new.token}\n{content}" if content else new.token
    try:
        return _settled(store, job, new, lambda: store.advance(path, last.stored, text))
    except OSError as e:
        current = read_state(store, job)
        # This request changed nothing: the state itself shows whether another process did (D1).
        if isinstance(e, _CONSUMED) or current is None or current.state.nonce != last.state.nonce:
            raise StateChangedError(current, last) from e
        raise


def delete_state(store: StoreOperations, job: JobAttempt, last: Seen) -> None:
    """Delete the state, if it is still `last`, on a store that keeps it as an object."""
    with suppress(FileExistsError):
        store.delete_version(places_of(store).state(job), last.stored.version)


def _settled(
    store: StoreOperations, job: JobAttempt, new: JobState, request: Callable[[], StoredState | None]
) -> Seen:
    """Make a change; if the answer does not confirm it, check whether it was made."""
    answers: list[StoredState | None] = []

    def look() -> Seen | None:
        current = read_state(store, job)
        return current if current is not None and current.state.nonce == new.nonce else None

    try:
        # An answer can be lost: a change that was made counts, whatever the answer says (D1).
        settle(lambda: answers.append(request()), lambda: look() is not None)
    except OSError:
        if (current := look()) is not None:
            return current
        raise
    stored = answers[0] if answers else None
    current = look() if stored is None else Seen(new, stored)
    if current is None:
        path = places_of(store).state(job)
        raise FileExistsError(errno.EEXIST, "was changed by another process", path)
    return current
