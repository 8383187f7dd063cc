"""The output of ``ray-committer commit --dry-run``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ray_committer.cli.print import count_text, partitions_text, print_result, size_text
from ray_committer.jobs.job_plan import JobPlan
from ray_committer.jobs.plan import plan_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import is_inside
from ray_committer.report.amounts import seconds_text
from ray_committer.report.whole import whole_texts


def print_plan(
    output: str,
    destination: str,
    job_id: str | None,
    *,
    options: CommitOptions,
    storage_options: Mapping[str, str],
) -> None:
    """Plan the commit of a job and print what it would do."""
    plan = plan_job(destination, job_id, options=options, storage_options=storage_options)
    rate = options.max_requests_per_second
    print_result(output, plan_value(plan, rate), plan_lines(plan, rate))


def plan_value(plan: JobPlan, requests_per_second: float | None) -> dict[str, Any]:
    """Return the plan as one JSON value, with an estimate if there is a rate."""
    rate = requests_per_second
    return {
        **asdict(plan),
        "requests_per_second": rate,
        "seconds": round(plan.seconds_at(rate), 1) if rate else None,
    }


def plan_lines(plan: JobPlan, requests_per_second: float | None) -> Iterator[str]:
    """Yield the plan in lines; paths are relative to the destination."""
    yield f"job {plan.job_id} (attempt {plan.job_attempt}, {plan.state}): {plan.destination}"
    yield from (f"  {text}" for text in (*plan.unfinished, *_moves(plan)))
    if plan.claims:
        shown = partitions_text(plan.claims)
        yield (
            f"  would claim {shown} in the log of the table"
            if plan.claim is None
            else f"  has claimed {shown} in the log of the table (version {plan.claim:,})"
        )
    if plan.replaced:
        rest = "the rest of " if plan.state == "sealed" else ""
        yield f"  would remove {rest}{count_text(plan.replaced, 'old file')}"
    if plan.first_directories:
        directories = "directory" if plan.directories == 1 else "directories"
        named = _first(plan.first_directories, plan.directories)
        yield f"  into {plan.directories:,} leaf {directories}{named}"
        yield from (f"    {_below(path, plan.destination)}" for path in plan.first_directories)
    if plan.whole or plan.by_file:
        text, *reasons = whole_texts(plan.whole, plan.whole_files, plan.by_file, verb="would go")
        yield f"  {text}"
        yield from (f"    by file: {reason}" for reason in reasons)
    if plan.first_renames:
        yield f"  by these renames{_first(plan.first_renames, plan.files - plan.moved)}"
    for rename in plan.first_renames:
        yield f"    {_below(rename.source, plan.destination)} ({size_text(rename.size)})"
        yield f"      -> {_below(rename.destination, plan.destination)}"
    if plan.state in ("recorded", "sealed"):
        yield "  would then be committed and cleaned up"
    if plan.state != "cleaned up":
        yield f"  {_estimate(plan, requests_per_second)}"
    yield "  nothing was changed"


def _moves(plan: JobPlan) -> Iterator[str]:
    """The files that are in their places, and those that are left."""
    of_tasks = f", of {count_text(plan.manifests, 'task')}"
    left = f"{count_text(plan.files - plan.moved, 'file')}, {size_text(plan.bytes - plan.moved_bytes)}"
    if plan.state == "running":
        yield f"would move {left}{of_tasks}"
    elif plan.state == "cleaned up":
        yield "is committed and cleaned up: nothing is left to do"
    elif plan.state == "committed" and not plan.manifests:  # an earlier clean-up has deleted the record
        yield "is committed, and would be cleaned up"
    elif plan.state == "committed":
        files = f"{count_text(plan.files, 'file')}, {size_text(plan.bytes)}"
        yield f"is committed, with {files}{of_tasks}, and would be cleaned up"
    else:
        moved, total = f"{plan.moved:,}", count_text(plan.files, "file")
        is_sure = plan.state == "sealed" or not plan.moved  # else some can be lost
        about = "" if is_sure else "at most "
        yield f"its commit has begun: {about}{moved} of {total} in place{of_tasks}"
        if plan.moved < plan.files:
            yield f"would move {'the other ' if plan.moved else ''}{left}"


def _estimate(plan: JobPlan, rate: float | None) -> str:
    requests = count_text(plan.requests, "request", about=True)
    if rate is None:
        return f"{requests}; --max-requests-per-second N shows how long they take"
    return f"{requests}; {seconds_text(plan.seconds_at(rate))} at {rate:,.0f} per second"


def _first(shown: tuple[object, ...], total: int) -> str:
    return f", the first {len(shown)}" if len(shown) < total else ""


def _below(path: str, destination: str) -> str:
    if path == destination:
        return "."
    return path[len(destination) :].lstrip("/") if is_inside(path, destination) else path
