"""Choose where a commit runs, and say why.

`auto` never starts Ray: it takes threads for local files (renames there are bound by the kernel), for
jobs that are done before Ray's workers have started, and where no Ray is to be reached. Only an
explicit ``ray`` may start one, and never inside a Spark driver.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from ray_committer.executors.base import CommitPool, OpenResources, WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.options import CommitOptions
from ray_committer.ratelimit import RateLimit

if TYPE_CHECKING:
    from ray_committer.executors.ray.executor import RayPool

ExecutorName = Literal["auto", "inline", "threads", "ray"]

START_SECONDS = 1.5
"""So much longer a commit was measured to take whose workers on Ray have to start
(``benchmarks/ray_calls.py``)."""
AHEAD_SECONDS = 0.5
"""Workers start while a job's tasks run only if its commit gets so much shorter: they take processor
time from the tasks, and with as many requests in flight a commit on workers that are ready takes up to
this much longer than one in threads (``benchmarks/ray_calls.py``)."""
SECONDS_A_REQUEST = 0.020
"""How long a request to a store behind a network is taken to be."""
CONNECTED = "Ray is connected"
WORKERS_OF_A_CLUSTER = 8
"""How many workers a cluster is taken to have that is not connected yet."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An executor and the reason for it."""

    executor: WorkExecutor
    reason: str


def open_pool(options: CommitOptions, shared: str | None = None) -> CommitPool:
    """Start commit workers on Ray that serve many commits, or join those of the pool called `shared`."""
    from ray_committer.executors.ray.executor import RayPool

    return RayPool(options, shared)


def open_pool_ahead(options: CommitOptions, about: str) -> CommitPool | None:
    """Start commit workers on Ray for a job whose tasks still run; None if there is no room beside them.

    `about` is what Ray shows of the commit.
    """
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
) -> Choice:
    """Open the executor called `name`, or one on a pool; the caller closes it.

    `open_here` opens the resources in this process, `open_elsewhere` (which is pickled) in others.
    `about` is what Ray shows of the commit; `store` names what the commits of a shared pool have one
    limit for.
    """
    pool: CommitPool | None = None
    reason = "asked for"
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
        options = replace(options, may_start_ray=False)
    if name == "ray":
        from ray_committer.executors.ray.executor import RayExecutor

        own = cast("RayPool | None", pool)  # the one kind of pool that there is
        return Choice(RayExecutor(open_elsewhere, options, pool=own, about=about, store=store), reason)
    limit = RateLimit(options.max_requests_per_second, lease_seconds=options.lease_seconds)
    if name == "inline":
        return Choice(InlineExecutor(open_here, limit), reason)
    if name == "threads":
        return Choice(ThreadsExecutor(open_here, limit, threads=options.threads), reason)
    raise ValueError(f"executor must be auto, inline, threads or ray, not {name!r}")


def choose_name(
    options: CommitOptions,
    *,
    renames_are_local: bool,
    ray: str | None,
    estimate_files: Callable[[], int],
) -> tuple[ExecutorName, str]:
    """What `auto` stands for, and why; `ray` says which Ray can be reached, None for none."""
    if renames_are_local:
        return "threads", "local files gain nothing from more processes"
    if ray is None:
        return (
            "threads",
            "no Ray is connected and RAY_ADDRESS is not set, or only by Ray Client (ray://)",
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
        return "threads", f"about {files:,} files; workers on Ray pay from about {pays_from:,} here"
    return "ray", f"about {files:,} files, {ray}"


def ray_pays_from(in_flight: int, threads: int, seconds: float) -> int | None:
    """From how many files on workers on Ray with so many requests in flight, which begin so many
    `seconds` later, are done before so many `threads` of this process; None if never."""
    gain = SECONDS_A_REQUEST * (1 / threads - 1 / in_flight)
    return math.ceil(seconds / gain) if gain > 0 else None


def start_pays_from(name: ExecutorName, options: CommitOptions) -> int | None:
    """From how many files on a commit by executor `name` is to wait for workers on Ray to start; None if
    it never is."""
    return _pays_from(name, options, START_SECONDS)


def ahead_pays_from(
    name: ExecutorName, options: CommitOptions, *, renames_are_local: bool
) -> int | None:
    """From how many files on workers on Ray are to be started while the job's tasks still run; None if
    its commit will have none, or this driver is not connected to Ray."""
    if reachable_ray() != CONNECTED or (name == "auto" and renames_are_local):
        return None
    return _pays_from(name, options, AHEAD_SECONDS)


def _pays_from(name: ExecutorName, options: CommitOptions, seconds: float) -> int | None:
    if name == "auto":
        return ray_pays_from(_workers(options) * options.worker_threads, options.threads, seconds)
    return 1 if name == "ray" else None


def _workers(options: CommitOptions) -> int:
    """How many workers the commit would have on Ray."""
    if options.workers is not None:
        return options.workers
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return WORKERS_OF_A_CLUSTER
    from ray_committer.executors.ray.executor import pool_size

    return pool_size(options)


def reachable_ray() -> str | None:
    """Which Ray a commit could use without starting one; does not import Ray. Ray Client is none."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        client = sys.modules.get("ray.util.client")
        return None if client is not None and client.ray.is_connected() else CONNECTED
    address = os.environ.get("RAY_ADDRESS", "")
    return "RAY_ADDRESS is set" if address and not address.startswith("ray://") else None
