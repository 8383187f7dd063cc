"""Options that several commands share."""

from __future__ import annotations

import click

job_id_option = click.option("--job-id", help="Which job, if the destination holds several.")
attempt_option = click.option("--attempt", type=int, help="Which attempt of the job.")
output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
storage_option = click.option(
    "-o",
    "storage",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option, as fsspec names it; may be repeated.",
)


def storage_options(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` pairs; a pair without ``=`` is a usage error."""
    parsed = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="-o")
        parsed[key] = value
    return parsed
