"""``ray-committer doctor``: check whether a commit would work here, and test the store's promises."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import print_result
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs import commit as jobs
from ray_committer.promises.lines import Diagnosis, Verdict

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "bold red"}


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.executor_option
@shared.at_store("max_requests_per_second", "workers", "worker_cpus")
def doctor(destination: str, executor: ExecutorName, output: str, how: shared.How) -> None:
    """Check what a commit to DEST depends on, and report what to fix.

    The doctor checks the store, the Ray cluster if a commit would use it, and the installed Spark. It
    uses its own files in a directory below DEST/_temporary, and then removes that directory. The exit
    code is 0 if no line failed, and 1 otherwise.
    """
    diagnosis = jobs.doctor(destination, executor=executor, **how)
    value = {**asdict(diagnosis), "failed": diagnosis.failed}
    print_result(output, value, _lines(diagnosis))
    sys.exit(1 if diagnosis.failed else 0)


def _lines(diagnosis: Diagnosis) -> Iterator[Text | str]:
    width = max(len(line.name) for line in diagnosis.lines)
    for line in diagnosis.lines:
        verdict = (f"{line.verdict.value:<9}", _STYLES.get(line.verdict, ""))
        yield Text.assemble(verdict, f"{line.name:<{width}}  {line.measured}")
        if line.advice:
            yield f"{'':<9}{'':<{width}}  -> {line.advice}"
    what = "a commit would fail or would not be safe" if diagnosis.failed else "nothing failed"
    yield f"{diagnosis.destination}: {what}"
