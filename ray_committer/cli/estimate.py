"""``ray-committer estimate``: the time of a commit, its requests, their price, and enough workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.estimate.answer import Answer, answer
from ray_committer.estimate.inputs import Job, Setup
from ray_committer.estimate.profiles import STORES
from ray_committer.estimate.stores import limited_to
from ray_committer.report.amounts import seconds_text


@click.command(cls=Command)
@click.option("--files", type=click.IntRange(min=1), required=True, help="Files of the job.")
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
    "--store",
    type=click.Choice(list(STORES)),
    required=True,
    help="The scheme of the destination's URL.",
)
@click.option(
    "--latency-ms",
    type=click.FloatRange(min=0.01, max=60_000),
    metavar="MS",
    help="How long a request takes; by default an assumption for the store, which is printed.",
)
@click.option(
    "--store-limit",
    type=click.FloatRange(min=1),
    metavar="N",
    help="Requests per second that the store takes; by default what its provider publishes.",
)
@click.option(
    "--slow-workers", type=click.IntRange(min=0), default=0, help="Workers that take 8 times as long."
)
@click.option("--lost-workers", type=click.IntRange(min=0), default=0, help="Workers that die half-way.")
@click.option(
    "--lost-driver", is_flag=True, help="The driver dies half-way, and the command is run again."
)
@shared.setting("workers", "Workers on Ray; without them, threads of the driver make the requests.")
@shared.settings(("worker_threads", "threads"))
@shared.output_option
def estimate(
    files: int,
    partitions: int,
    tasks: int | None,
    store: str,
    latency_ms: float | None,
    store_limit: float | None,
    slow_workers: int,
    lost_workers: int,
    lost_driver: bool,
    output: str,
    **_settings: Any,
) -> None:
    """Estimate how long a commit takes, its requests, and how many workers are worth it.

    A simulation with costs that were measured, and list prices; it makes no request, and the job need
    not exist.
    """
    options = shared.commit_options()
    _refuse(files, partitions, options.workers, store, slow_workers + lost_workers)
    profile = STORES[store] if store_limit is None else limited_to(STORES[store], store_limit)
    setup = Setup(
        store=profile,
        latency=profile.latency if latency_ms is None else latency_ms / 1000,
        in_flight=options.worker_threads if options.workers else options.threads,
        workers=options.workers,
        slow=slow_workers,
        lost=lost_workers,
    )
    job = Job(files, tasks or -(-files // partitions), partitions)
    found = answer(job, setup, lost_driver=lost_driver)
    lines = _lines(job, setup, found, is_assumed=latency_ms is None)
    print_result(output, _value(job, setup, found), lines)


def _refuse(files: int, partitions: int, workers: int | None, store: str, bad_workers: int) -> None:
    if partitions > files:
        raise click.UsageError(f"--partitions {partitions}: there are only {count_text(files, 'file')}")
    if workers and store == "file":
        raise click.UsageError("--workers: one machine renames its local files, so workers gain nothing")
    if bad_workers and bad_workers >= (workers or 0):
        raise click.UsageError(
            f"--slow-workers and --lost-workers are together {bad_workers}, of {workers or 0} --workers"
        )


def _value(job: Job, setup: Setup, found: Answer) -> dict[str, Any]:
    prices, enough = setup.store.prices, found.enough
    return {
        "files": job.files,
        "tasks": job.manifests,
        "partitions": job.partitions,
        "workers": setup.workers,
        "in_flight": setup.in_flight,
        "latency_ms": round(setup.latency * 1000, 3),
        "seconds": round(found.estimate.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in found.estimate.stages.items()},
        "requests": {kind: round(number) for kind, number in found.estimate.requests.items()},
        "dollars": None if found.dollars is None else round(found.dollars, 4),
        "prices": None if prices is None else {"date": prices.date, "source": prices.source},
        "enough_workers": None if enough is None else replace(enough, seconds=round(enough.seconds, 3)),
    }


def _lines(job: Job, setup: Setup, found: Answer, *, is_assumed: bool) -> Iterator[str]:
    files, tasks = count_text(job.files, "file"), count_text(job.manifests, "task")
    partitions = count_text(job.partitions, "partition")
    yield f"{files} of {tasks} in {partitions}, on {setup.store.name}"
    yield f"  {_where(setup)}"
    yield f"  {_latency(setup, is_assumed=is_assumed)}"
    yield f"  the commit takes about {_seconds(found.estimate.seconds)}"
    yield from _table(
        (name, _seconds(seconds)) for name, seconds in found.estimate.stages.items() if seconds
    )
    requests = found.estimate.requests
    yield f"  and makes {count_text(round(sum(requests.values())), 'request', about=True)}"
    by_number = sorted(requests, key=lambda kind: -requests[kind])
    yield from _table((kind, f"{round(requests[kind]):,}") for kind in by_number)
    if found.dollars is not None and (prices := setup.store.prices) is not None:
        yield f"  for about ${found.dollars:,.2f}, by list prices of {prices.date} that may be outdated:"
        yield f"    {prices.source}"
    if found.enough is not None:
        workers, seconds = count_text(found.enough.workers, "worker"), _seconds(found.enough.seconds)
        yield f"  more than {workers} gain nothing ({seconds} with them): it then waits for"
        yield f"    {found.enough.reason}"


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield f"    {name:<32}{text:>14}"


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
