"""``ray-committer doctor``: would a commit work here; each promise of the store is tried."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click
import msgspec

from ray_committer import api
from ray_committer.checkup.lines import Diagnosis
from ray_committer.cli import options as shared
from ray_committer.executors.choose import ExecutorName


@click.command()
@click.argument("destination", metavar="DEST")
@click.option(
    "--executor", type=click.Choice(["auto", "threads", "ray"]), default="auto", show_default=True
)
@shared.storage_option
@shared.output_option
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
def doctor(
    destination: str, executor: ExecutorName, storage: tuple[str, ...], output: str, as_json: bool
) -> None:
    """Try what a commit to DEST rests on, and say what to mend.

    Everything is tried on files of its own in a directory below DEST/_temporary, which is removed
    again. Looked at are the store, the Ray cluster if a commit would use it, and the Spark that is
    installed. Exit code 0 if no line failed, 1 otherwise.
    """
    diagnosis = api.doctor(
        destination, executor=executor, storage_options=shared.storage_options(storage)
    )
    click.echo(_json(diagnosis) if as_json or output == "json" else "\n".join(_table(diagnosis)))
    sys.exit(1 if diagnosis.failed else 0)


def _json(diagnosis: Diagnosis) -> str:
    fields = {**asdict(diagnosis), "failed": diagnosis.failed}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def _table(diagnosis: Diagnosis) -> list[str]:
    width = max(len(line.name) for line in diagnosis.lines)
    rows = []
    for line in diagnosis.lines:
        rows.append(f"{line.verdict.value:<9}{line.name:<{width}}  {line.measured}")
        if line.advice:
            rows.append(f"{'':<9}{'':<{width}}  -> {line.advice}")
    what = "a commit would fail or not be safe" if diagnosis.failed else "nothing failed"
    return [*rows, f"{diagnosis.destination}: {what}"]
