"""Choose where a commit runs, and report the reason.

`auto` chooses threads for local files (the kernel limits renames there), for jobs that are done before
Ray's workers have started, and if no Ray can be reached. No choice starts Ray.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from ray_committer.executors.base import CommitPool, OpenResources, WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions

if TYPE_CHECKING:
    from ray_committer.executors.ray.executor import RayPool

ExecutorName = Literal["auto", "threads", "inline", "ray"]

START_SECONDS = 1.5
"""The measured extra time of a commit whose workers on Ray must start first
(``benchmarks/ray_calls.py``)."""
AHEAD_SECONDS = 0.5
"""Workers start while a job's tasks run only if this makes the commit this much shorter. They take
processor time from the tasks, and with as many requests in flight a commit on ready workers takes up to
this much longer than one in threads (``benchmarks/ray_calls.py``)."""
SECONDS_A_REQUEST = 0.020
"""The assumed time of a request to a store behind a network."""
CONNECTED = "Ray is connected"
WORKERS_OF_A_CLUSTER = 8
"""The assumed number of workers of a cluster that is not connected yet."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An executor and the reason for it."""

    executor: WorkExecutor
    reason: str


def open_pool(options: CommitOptions, shared: str | None = None) -> CommitPool:
    """Start commit workers on Ray that serve many commits, or join the pool called `shared`."""
    from ray_committer.executors.ray.executor import RayPool

    return RayPool(options, shared)


def open_pool_ahead(options: CommitOptions, about: str) -> CommitPool | None:
    """Start commit workers on Ray for a job whose tasks still run; None if there is no room beside them.
    `about` is the text that Ray shows for the commit."""
    from ray_committer.executors.ray.executor import RayPool, has_room

    if not has_room(options):
        return None
    return RayPool(options, reason="workers were started while the tasks ran", about=about)


def choose_executor(
    name: ExecutorName | CommitPool,
    options: CommitOptions,
    *,
    open_here: OpenResources,
    open_elsewhere: OpenResources,
    renames_are_local: bool,
    estimate_files: Callable[[], int],
    about: str = "",
    store: str = "",
    connecting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Choice:
    """Open the executor called `name`, or one on a pool; the caller closes it. `open_here` opens the
    resources in this process, `open_elsewhere` (which is pickled) in others. Ray shows `about` for the
    commit, and connects within `connecting`. Commits of a shared pool to one `store` share a limit."""
    pool: CommitPool | None = None
    reason = "as requested"
    if not isinstance(name, str):
        pool, reason = name, name.reason
        name = "ray"
    if name == "auto":
        name, reason = choose_name(
            options,
            renames_are_local=renames_are_local,
            ray=reachable_ray(),
            estimate_files=estimate_files,
        )
    # Imported only here: Ray's import is slow, and most commits on threads need none of it.
    if name == "ray":
        with connecting():
            from ray_committer.executors.ray.executor import RayExecutor

            ray_pool = cast("RayPool | None", pool)  # the only kind of pool
            on_ray = RayExecutor(open_elsewhere, options, pool=ray_pool, about=about, store=store)
        return Choice(on_ray, reason)
    limit = RateLimit(options.max_requests_per_second)
    if name == "inline":
        return Choice(InlineExecutor(open_here, limit), reason)
    if name == "threads":
        waits = not renames_are_local
        return Choice(ThreadsExecutor(open_here, limit, threads=options.threads, waits=waits), reason)
    raise ValueError(f"executor must be auto, inline, threads or ray, not {name!r}")


def choose_name(
    options: CommitOptions,
    *,
    renames_are_local: bool,
    ray: str | None,
    estimate_files: Callable[[], int],
) -> tuple[ExecutorName, str]:
    """Return the choice of `auto` and its reason; `ray` says which Ray can be reached, None if none."""
    # Before Ray is looked at: even a connected cluster does not pay here.
    if renames_are_local:
        return "threads", "local files gain nothing from more processes"
    if ray is None:
        return (
            "threads",
            "no Ray is connected or set in RAY_ADDRESS (Ray Client, ray://, does not count)",
        )
    in_flight = _workers(options) * options.worker_threads
    pays_from = ray_pays_from(in_flight, options.threads, START_SECONDS)
    if pays_from is None:
        return (
            "threads",
            f"workers on Ray would have {in_flight} requests in flight, threads here have "
            f"{options.threads}",
        )
    files = estimate_files()
    if files < pays_from:
        return "threads", f"about {files:,} files; workers on Ray are faster from about {pays_from:,}"
    return "ray", f"about {files:,} files, {ray}"


def ray_pays_from(in_flight: int, threads: int, seconds: float) -> int | None:
    """Return the number of files from which workers on Ray finish before `threads` of this process; None
    if never. The workers have `in_flight` requests in flight and begin `seconds` later."""
    # What one file gains: its share of a request's time, by the requests in flight in each place.
    gain = SECONDS_A_REQUEST * (1 / threads - 1 / in_flight)
    return math.ceil(seconds / gain) if gain > 0 else None


def start_pays_from(name: ExecutorName, options: CommitOptions) -> int | None:
    """Return the number of files from which a commit should wait for workers on Ray; None if never."""
    return _pays_from(name, options, START_SECONDS)


def ahead_pays_from(
    name: ExecutorName, options: CommitOptions, *, renames_are_local: bool
) -> int | None:
    """Return the number of files from which workers on Ray should start while the job's tasks still run;
    None if the commit will have no workers, or this driver is not connected to Ray."""
    if reachable_ray() != CONNECTED or (name == "auto" and renames_are_local):
        return None
    return _pays_from(name, options, AHEAD_SECONDS)


def _pays_from(name: ExecutorName, options: CommitOptions, seconds: float) -> int | None:
    if name == "auto":
        return ray_pays_from(_workers(options) * options.worker_threads, options.threads, seconds)
    return 1 if name == "ray" else None


def _workers(options: CommitOptions) -> int:
    """Return the number of workers that the commit would have on Ray."""
    if options.workers is not None:
        return options.workers
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return WORKERS_OF_A_CLUSTER
    from ray_committer.executors.ray.executor import pool_size

    return pool_size(options)


def reachable_ray() -> str | None:
    """Say which Ray a commit can use without starting one; does not import Ray. None for Ray Client."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        # Looked up in `sys.modules`, since this function must import neither Ray nor Ray Client.
        client = sys.modules.get("ray.util.client")
        return None if client is not None and client.ray.is_connected() else CONNECTED
    address = os.environ.get("RAY_ADDRESS", "")
    return "RAY_ADDRESS is set" if address and not address.startswith("ray://") else None
