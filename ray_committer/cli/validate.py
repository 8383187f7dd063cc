"""``ray-committer validate``: check that the files of a committed job are still there, unchanged."""

from __future__ import annotations

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import count_text, print_result
from ray_committer.jobs.validate import Validation, validate_job


@click.command(cls=Command)
@click.argument("destination", metavar="DEST")
@shared.job_id_option
@shared.at_store("job_attempt", *shared.REQUESTS)
def validate(destination: str, job_id: str | None, output: str, how: shared.How) -> None:
    """Compare the files at DEST with the job's manifests, or with its _SUCCESS file.

    While the manifests exist, as after a commit with --no-cleanup, each of their files is compared.
    Otherwise only the names in _SUCCESS are compared: at most 100, without sizes. Exit code 5 means that
    something differs.
    """
    validation = validate_job(destination, job_id, **how)
    print_result(output, validation, _lines(validation))


def _lines(validation: Validation) -> list[str]:
    job = f"{validation.destination}: job {validation.job_id}"
    if validation.is_complete:
        return [
            f"{job}: {count_text(validation.compared, 'file')} compared with its manifests; none differs"
        ]
    named = f"the {count_text(validation.compared, 'file')} that _SUCCESS names"
    return [
        f"{job}: {named} {'is' if validation.compared == 1 else 'are'} there",
        f"  of {count_text(validation.files, 'file')} in all; sizes and other files were not compared, "
        f"since",
        "  the manifests are gone: a commit with --no-cleanup keeps them",
    ]
