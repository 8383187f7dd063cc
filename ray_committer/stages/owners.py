"""Who runs a commit, and whether it still does.

Nobody's safety rests on the answer: it only says whether to wait for somebody or to go on.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """This process as one that has recorded a commit for others to go on with."""
    return structs.replace(owner_of(run), started=_NEVER)


@contextmanager
def at_work(run: str) -> Iterator[None]:
    """Note that a thread of this process is at work on a run, while the block runs."""
    with _lock:
        _at_work.add(run)
    try:
        yield
    finally:
        with _lock:
            _at_work.discard(run)


def is_alive(owner: Owner, last_sign_milliseconds: int, now_milliseconds: int) -> bool:
    """Whether who runs a commit is to be waited for.

    A process of this machine is asked for, any other believed for `DEAD_SECONDS` after its last sign.
    """
    if owner.started == _NEVER or now_milliseconds - last_sign_milliseconds > DEAD_SECONDS * 1000:
        return False
    here = owner_of(owner.run)
    if (owner.host, owner.boot) != (here.host, here.boot):
        return True
    if owner == here:
        with _lock:
            return owner.run in _at_work
    return _started(owner.process) == owner.started


@lru_cache(maxsize=1)
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(process: int) -> int | None:
    """When a process of this machine started, in the kernel's ticks; None if there is none."""
    try:
        line = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return int(line.rpartition(")")[2].split()[19])
