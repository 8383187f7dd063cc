"""``ray-committer estimate``: the time of a commit, its requests, their price, and enough workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.jobs import estimate as formulas
from ray_committer.jobs.estimate import Estimate, Job, Limit, Setup
from ray_committer.options.settings import Group
from ray_committer.protocol.paths import ROOTS
from ray_committer.report.amounts import seconds_text


@click.command(cls=Command)
@click.argument("store", metavar="STORE", type=click.Choice(list(formulas.STORES)))
@click.argument("files", metavar="FILES", type=click.IntRange(min=1))
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Directories that the files go to.",
)
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    help="Tasks of the job; by default each has one file for each partition.",
)
@click.option(
    "--reads-manifests",
    is_flag=True,
    help="The commit is by a process without the results of the tasks, as by `ray-committer commit`.",
)
@click.option(
    "--existing",
    is_flag=True,
    help="The partitions exist, so that files are moved one by one, and no partition whole.",
)
@shared.option(
    "--latency-ms",
    group=Group.TUNING,
    type=click.FloatRange(min=0.01, max=60_000),
    metavar="MS",
    help="How long a request takes; by default an assumption for the store, which is printed.",
)
@shared.setting(
    "max_requests_per_second",
    "What the store takes, reads and writes together; by default what its provider publishes.",
)
@shared.setting("workers", "Workers on Ray; without them, threads of the driver make the requests.")
@shared.setting("worker_threads")
@shared.setting("threads")
@shared.output_option
def estimate(
    store: str,
    files: int,
    partitions: int,
    tasks: int | None,
    reads_manifests: bool,
    existing: bool,
    latency_ms: float | None,
    output: str,
    **_settings: Any,
) -> None:
    """Estimate how long a commit takes, its requests, and how many workers are worth it.

    The job has FILES files; STORE is the scheme of its destination's URL: file, hdfs, abfs, gs or s3.
    Formulas give the answer, with costs that were measured, and list prices; no request is made, and the
    job need not exist.
    """
    options = shared.commit_options()
    _refuse(files, partitions, options.workers, store)
    kind = formulas.STORES[store]
    if (most := options.max_requests_per_second) is not None:
        limit = Limit(most, most, f"the {most:,.0f} requests per second of the store", are_one=True)
        kind = replace(kind, limit=limit)
    setup = Setup(
        store=kind,
        latency=kind.latency if latency_ms is None else latency_ms / 1000,
        in_flight=options.worker_threads if options.workers else 1 if kind.is_local else options.threads,
        workers=options.workers,
    )
    tasks = tasks or -(-files // partitions)
    # Files of the destination itself are in so many directories.
    sources = partitions if partitions > 1 else min(tasks, ROOTS)
    job = Job(files, tasks, partitions, sources, has_results=not reads_manifests)
    if existing or partitions == 1:  # one that is not named is the destination itself
        job = replace(job, existing=partitions)
    elif kind.makes_directories:
        job = replace(job, whole=partitions, whole_files=files)
    value = _value(job, setup)
    print_result(output, value, _lines(job, setup, value, is_assumed=latency_ms is None))


def _refuse(files: int, partitions: int, workers: int | None, store: str) -> None:
    if partitions > files:
        raise click.UsageError(f"--partitions {partitions}: there are only {count_text(files, 'file')}")
    if workers and store == "file":
        raise click.UsageError("--workers: one machine renames its local files, so workers gain nothing")


def _value(job: Job, setup: Setup) -> dict[str, Any]:
    requests = formulas.count_requests(setup.store, job)
    dollars = formulas.dollars(requests, setup.store)
    enough = None
    if setup.workers:
        workers, estimate = formulas.enough_workers(job, setup)
        enough = {"workers": workers, **_rounded(estimate)}
    return {
        **asdict(job),
        "workers": setup.workers,
        "in_flight": setup.in_flight,
        "latency_ms": round(setup.latency * 1000, 3),
        **_rounded(formulas.estimate(job, setup)),
        "requests": requests,
        "dollars": None if dollars is None else round(dollars, 4),
        "prices_from": setup.store.prices_from or None,
        "enough_workers": enough,
    }


def _rounded(estimate: Estimate) -> dict[str, Any]:
    return {"seconds": round(estimate.seconds, 3), "waits_for": estimate.waits_for}


def _lines(job: Job, setup: Setup, value: Mapping[str, Any], *, is_assumed: bool) -> Iterator[str]:
    files, tasks = count_text(job.files, "file"), count_text(job.tasks, "task")
    partitions = count_text(job.directories, "partition")
    yield f"{files} of {tasks} in {partitions}, on {setup.store.name}"
    yield f"  {_where(setup)}"
    yield f"  {_latency(setup, is_assumed=is_assumed)}"
    yield f"  the commit takes about {_seconds(value['seconds'])}; it waits mostly for"
    yield f"    {value['waits_for']}"
    requests = value["requests"]
    if job.whole:
        yield "  each partition is new, and is moved whole"
    yield f"  and makes {count_text(sum(requests.values()), 'request', about=True)}"
    for kind in sorted(filter(requests.get, requests), key=lambda kind: -requests[kind]):
        yield f"    {kind:<32}{requests[kind]:>14,}"
    if value["dollars"] is not None:
        yield f"  for about ${value['dollars']:,.2f}, by list prices that may be outdated:"
        yield f"    {value['prices_from']}"
    if (enough := value["enough_workers"]) is not None:
        workers, seconds = count_text(enough["workers"], "worker"), _seconds(enough["seconds"])
        yield f"  more than {workers} gain nothing ({seconds} with them): it then waits for"
        yield f"    {enough['waits_for']}"


def _where(setup: Setup) -> str:
    if setup.store.is_local:
        return "one thread of the driver"
    if not setup.workers:
        return f"{setup.in_flight} threads of the driver"
    return f"{count_text(setup.workers, 'worker')} on Ray with {setup.in_flight} requests in flight each"


def _latency(setup: Setup, *, is_assumed: bool) -> str:
    if setup.store.is_local and is_assumed:
        return "no wait for a store"
    assumed = ", which is assumed: give yours with --latency-ms" if is_assumed else ""
    return f"{setup.latency * 1000:g} ms per request{assumed}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else seconds_text(seconds)
