"""The heartbeat of a long commit, for processes that wait for it or ask for its progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.owners import BEAT_SECONDS, owner_of
from ray_committer.job_files.settle import put
from ray_committer.protocol.record import Heartbeat, encode
from ray_committer.stages.context import JobContext
from ray_committer.stages.rename_files import Renamed

_log = logging.getLogger(__name__)


@contextmanager
def heartbeat(
    context: JobContext,
    run: str,
    renamed: Renamed,
    *,
    at_once: bool = False,
    every_seconds: float = BEAT_SECONDS,
) -> Iterator[None]:
    """While the block runs, write every `every_seconds` that this run is alive, and its progress.

    A short commit writes no heartbeat. A run that continues a recorded commit writes the first one
    `at_once`. A reader sees the last heartbeat or the one before, never a part of one. A heartbeat that
    cannot be written is only logged: the safety of no job depends on it.
    """
    ended = threading.Event()

    temporary = context.job.content(f"heartbeat-{run}")

    last = context.now_milliseconds(), renamed.files

    def beat() -> None:
        nonlocal last
        at, files = context.now_milliseconds(), renamed.files
        rate = 1000 * (files - last[1]) / (at - last[0]) if at > last[0] else None
        last = at, files
        sign = Heartbeat(owner=owner_of(run), at_milliseconds=at, files=files, per_second=rate)
        try:
            put(context.store, context.job.heartbeat, encode(sign), temporary=temporary)
        except (OSError, RayCommitterError) as e:
            _log.warning("%s: could not be written: %s", context.job.heartbeat, e)

    def keep_beating() -> None:
        while not ended.wait(every_seconds):
            beat()

    if at_once:
        beat()
    thread = threading.Thread(target=keep_beating, name="ray-committer-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
