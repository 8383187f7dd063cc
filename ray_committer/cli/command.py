"""Commands whose options can also be set by variables: ``RAY_COMMITTER_`` and the option's name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from ray_committer.cli.errors import fail
from ray_committer.options import ENVIRONMENT_PREFIX

HELP = {"help_option_names": ["-h", "--help"]}


def name_environment(command: click.Command) -> None:
    """Give each option of `command` its variable, which is the same for all commands."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_eager and option.name:
            option.envvar = ENVIRONMENT_PREFIX + option.name.upper()
            option.show_envvar = True


class Command(click.Command):
    """A command of ``ray-committer``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"context_settings": HELP, **kwargs})
        name_environment(self)


class Group(click.Group):
    """``ray-committer``: it turns every exception into three lines and an exit code.

    `summaries` has a line of help for each command. The command is in the module with its name in this
    package, which is imported only when the command is run.
    """

    command_class = Command

    def __init__(self, *, summaries: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**{"context_settings": HELP, **kwargs})
        self.summaries = summaries
        name_environment(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.summaries:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"ray_committer.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 - all of them are shown to the user
            verbose = context.params["verbose"]
            fail(e, context.invoked_subcommand, with_traceback=verbose > 1)
