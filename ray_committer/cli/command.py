"""Commands whose every option the environment can give, too: ``RAY_COMMITTER_`` and its name."""

from __future__ import annotations

from typing import Any

import click

from ray_committer.cli.errors import fail
from ray_committer.options import ENVIRONMENT_PREFIX

HELP = {"help_option_names": ["-h", "--help"]}


def name_environment(command: click.Command) -> None:
    """Let each option of `command` be given by one variable, whichever command it belongs to."""
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
    """``ray-committer``: it turns every exception into two lines and an exit code."""

    command_class = Command

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"context_settings": HELP, **kwargs})
        name_environment(self)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 - all of them are told to a person
            verbose = context.params["verbose"]
            fail(e, context.invoked_subcommand, with_traceback=verbose > 1)
