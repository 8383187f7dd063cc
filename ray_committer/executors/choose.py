"""Choose where a commit runs, and say why.

`auto` never starts Ray: threads move local files as fast as any cluster does (renames there are bound
by the kernel). Only an explicit ``ray`` may start one, and never inside a Spark driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ray_committer.executors.base import OpenResources, WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.options import CommitOptions
from ray_committer.ratelimit import RateLimit

ExecutorName = Literal["auto", "inline", "threads", "ray"]


@dataclass(frozen=True, slots=True)
class Choice:
    """An executor and the reason for it."""

    executor: WorkExecutor
    reason: str


def choose_executor(
    name: ExecutorName,
    options: CommitOptions,
    *,
    open_here: OpenResources,
    open_elsewhere: OpenResources,
    commit_key: str,
) -> Choice:
    """Open the executor called `name`; the caller closes it.

    `open_here` opens the resources in this process, `open_elsewhere` (which is pickled) in others.
    `commit_key` identifies the commit in the cluster: a second one with it is refused.
    """
    if name == "ray":
        from ray_committer.executors.ray.executor import RayExecutor

        return Choice(RayExecutor(open_elsewhere, options, commit_key=commit_key), "asked for")
    limit = RateLimit(options.max_requests_per_second, lease_seconds=options.lease_seconds)
    if name == "inline":
        return Choice(InlineExecutor(open_here, limit), "asked for")
    if name not in ("auto", "threads"):
        raise ValueError(f"executor must be auto, inline, threads or ray, not {name!r}")
    reason = "asked for" if name == "threads" else "local files gain nothing from more processes"
    return Choice(ThreadsExecutor(open_here, limit, threads=options.threads), reason)
