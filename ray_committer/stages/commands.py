"""The command lines that texts tell people to run: of the job as its URL, so that they can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import destination_url


def commit_command(spec: StoreSpec, job: JobAttempt, allowed_roots: Sequence[str] = ()) -> str:
    """What finishes the commit of `job`, which may write to `allowed_roots`, too."""
    roots = [word for root in allowed_roots for word in ("--allowed-root", destination_url(spec, root))]
    return job_command("commit", destination_url(spec, job.destination), job, options=roots)


def abort_command(spec: StoreSpec, job: JobAttempt, *, undo: bool = False) -> str:
    """What finishes the abort of `job`, or gives up its recorded commit."""
    options = ["--undo"] if undo else []
    return job_command("abort", destination_url(spec, job.destination), job, options=options)


def job_command(
    verb: str, dest: str, job: JobAttempt, *, name_attempt: bool = False, options: Sequence[str] = ()
) -> str:
    """A command on one job at `dest`, quoted for a shell; the first attempt has to be named beside
    others."""
    words = ["ray-committer", verb, dest, "--job-id", job.job_id]
    if name_attempt or job.number:
        words += ["--attempt", str(job.number)]
    return shlex.join([*words, *options])
