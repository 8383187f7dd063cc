"""The heartbeat of a long commit, for processes that wait for it or ask for its progress.

A run that fails says that it is over, because its process can live on, as a notebook's does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import structs

from ray_committer.errors import RayCommitterError, StoreUnavailableError, ThrottledError
from ray_committer.job_files.owners import BEAT_SECONDS, nobody, owner_of
from ray_committer.job_files.read_job import last_sign
from ray_committer.places.choose import own_files_of
from ray_committer.protocol.record import Heartbeat, decode_claim, encode
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.context import JobContext

_FAILED = (Exception, KeyboardInterrupt, SystemExit)
_log = logging.getLogger(__name__)


@contextmanager
def heartbeat(
    context: JobContext,
    run: str,
    files: Callable[[], int],
    *,
    at_once: bool = False,
    every_seconds: float = BEAT_SECONDS,
) -> Iterator[None]:
    """While the block runs, write every `every_seconds` that this run is alive, and how many `files` it
    has moved; `at_once` if it continues a recorded commit. A short commit writes none. A heartbeat that
    cannot be written is only logged: the safety of no job depends on it."""
    ended = threading.Event()
    temporary = context.job.content(f"heartbeat-{run}")
    last = context.now_milliseconds(), files()

    def beat() -> None:
        nonlocal last
        at, moved = context.now_milliseconds(), files()
        rate = 1000 * (moved - last[1]) / (at - last[0]) if at > last[0] else None
        last = at, moved
        sign = Heartbeat(owner=owner_of(run), at_milliseconds=at, files=moved, per_second=rate)
        try:
            context.own_files.put(context.job.heartbeat, encode(sign), temporary=temporary)
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


@contextmanager
def signing_off(context: JobContext, run: str) -> Iterator[None]:
    """If the block fails, show that this run is over, so that nobody waits for it. A store that does not
    answer is not asked again: there, others wait until the run has been silent for long."""
    try:
        yield
    except _FAILED as e:
        if not _is_down(e):
            try:
                _sign_off(context, run)
            except (OSError, RayCommitterError) as failure:
                _log.warning("%s: could not be written: %s", context.job.heartbeat, failure)
        raise


def _is_down(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, StoreUnavailableError | ThrottledError):
        error = error.__cause__
    return error is not None


def _sign_off(context: JobContext, run: str) -> None:
    """Replace the last sign of life of this run, if others can still see one."""
    store, job = context.store, context.job
    current, beat = last_sign(store, job)
    if current is None or current.phase not in (*UNDECIDED, Phase.RECORDED, Phase.SEALED):
        return
    # The first heartbeat comes after ten seconds: before that, only the record names the owner.
    if beat is None and current.state.record is not None:
        path = job.content(current.state.record)
        owner = decode_claim(current.content.encode() or store.read(path), path).owner
        beat = Heartbeat(owner=owner, at_milliseconds=context.now_milliseconds())
    if beat is not None and beat.owner.run == run:
        over = structs.replace(beat, owner=nobody(run))
        own_files_of(store).put(job.heartbeat, encode(over), temporary=job.content(f"heartbeat-{run}"))
