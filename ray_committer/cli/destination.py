"""Commands whose DEST is a directory or a database; each has options that only one of them knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ray_committer.cli.command import Command
from ray_committer.records.database import is_database

F = TypeVar("F", bound=Callable[..., Any])

_RECORDS = ("table", "write_id")
_BOTH = ("destination", "job_id", "output")
_MORE = {"abort": ("undo",), "vacuum": ("older_than", "dry_run")}

table_option = click.option("--table", metavar="TABLE", help="If DEST is a database: the table.")
write_id_option = click.option(
    "--write-id",
    type=click.IntRange(min=1),
    help="If DEST is a database: the job to use if the table has several.",
)


class DestinationCommand(Command):
    """A command that does one thing with a directory, and another with a database."""

    def invoke(self, ctx: click.Context) -> Any:
        if not is_database(ctx.params["destination"]):
            _refuse(ctx, _RECORDS, "needs the URL of a database as DEST")
            return super().invoke(ctx)
        name = self.name or ""
        known = {*_BOTH, *_RECORDS, *_MORE.get(name, ())}
        _refuse(ctx, ctx.params.keys() - known, "does not apply to a database")
        if not ctx.params["table"]:
            raise click.UsageError("a database needs --table", ctx)
        from ray_committer.cli.record_jobs import COMMANDS

        return COMMANDS[name](**{key: ctx.params[key] for key in known & ctx.params.keys()})


def _refuse(ctx: click.Context, names: Iterable[str], why: str) -> None:
    """Refuse options of the command line; in the environment they can be for other commands."""
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise click.UsageError(f"{option.opts[0]} {why}", ctx)
