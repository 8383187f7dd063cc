"""Find out which process runs a commit, and whether it is still alive.

Safety never depends on the answer, which only decides whether to wait.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

from msgspec import structs

from ray_committer.protocol.record import Owner

BEAT_SECONDS = 10.0
DEAD_SECONDS = 3 * BEAT_SECONDS

_NEVER = -1
_at_work: set[str] = set()
_lock = threading.Lock()


def owner_of(run: str) -> Owner:
    """This process as the owner of one of its runs."""
    process = os.getpid()
    return Owner(platform.node(), _boot(), process, _started(process) or 0, run)


def nobody(run: str) -> Owner:
    """This process as an owner that only records the commit, which other processes continue."""
    return structs.replace(owner_of(run), started=_NEVER)


@contextmanager
def at_work(run: str) -> Iterator[None]:
    """Mark a run as at work in this process while the block runs."""
    with _lock:
        _at_work.add(run)
    try:
        yield
    finally:
        with _lock:
            _at_work.discard(run)


class Life(IntEnum):
    """Whether to wait for the process that runs a commit."""

    DEAD = 0
    DOUBTFUL = 1
    """Its last sign is from the future: only a change of the sign shows that it is alive."""
    ALIVE = 2


def life_of(owner: Owner, last_sign_milliseconds: int, now_milliseconds: int) -> Life:
    """Whether the process that runs a commit is alive, as far as one look at its last sign can show. An
    owner of `nobody`, or one without a sign of life for `DEAD_SECONDS`, counts as dead. Otherwise a
    process on another machine counts as alive. A process on this machine is alive while it runs, and
    this process while it is at work on the run. Clocks may differ by `DEAD_SECONDS`."""
    age_seconds = (now_milliseconds - last_sign_milliseconds) / 1000
    if age_seconds > DEAD_SECONDS or has_ended(owner):
        return Life.DEAD
    # The clocks differ, so the age says nothing. The caller watches the sign by its own clock instead.
    return Life.DOUBTFUL if age_seconds < -DEAD_SECONDS else Life.ALIVE


def is_alive(owner: Owner, last_sign_milliseconds: int, now_milliseconds: int) -> bool:
    """Whether one look shows that the process that runs a commit is alive."""
    return life_of(owner, last_sign_milliseconds, now_milliseconds) is Life.ALIVE


def has_ended(owner: Owner) -> bool:
    """Whether it is certain that the process does not run the commit any more: there was `nobody` to
    run it, or this machine knows it. Silence is no proof."""
    here = owner_of(owner.run)
    if is_nobody(owner):
        return True
    # A number of a process means nothing on another machine, or after a reboot of this one.
    if (owner.host, owner.boot) != (here.host, here.boot):
        return False
    # The same process may have run this commit before: only the mark shows whether it still does.
    if owner == here:
        with _lock:
            return owner.run not in _at_work
    # Numbers of processes are used again: only with its start does one name a process.
    return _started(owner.process) != owner.started


def is_nobody(owner: Owner) -> bool:
    """Whether the commit was only recorded, for other processes to continue it."""
    return owner.started == _NEVER


@lru_cache(maxsize=1)
def _boot() -> str:
    """The boot of this machine, and the namespace of its processes: a container can have its name."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _started(process: int) -> int | None:
    """The start of a process of this machine, in the kernel's ticks; None if it does not exist."""
    try:
        line = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # After the last bracket: the name of a program can have blanks and brackets itself.
    return int(line.rpartition(")")[2].split()[19])
