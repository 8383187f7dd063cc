"""Commands whose options can also be set by variables: ``RAY_COMMITTER_`` and the option's name."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from ray_committer.cli import document
from ray_committer.cli.errors import fail
from ray_committer.cli.help import did_you_mean, write_examples, write_options
from ray_committer.options.settings import ENVIRONMENT_PREFIX

HELP = {"help_option_names": ["-h", "--help"]}


LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
VERBOSE = f"{__name__}.verbose"
"""The key of what all contexts of one call share: how often ``-v`` was given so far."""


def verbose_option(*, is_eager: bool = False) -> click.Option:
    """``-v``, before the name of a command and after it; an eager option has no variable."""

    def count(ctx: click.Context, _option: click.Parameter, value: int) -> None:
        ctx.meta[VERBOSE] = ctx.meta.get(VERBOSE, 0) + value
        # Only our own logger: libraries of stores log requests, which may contain secrets.
        logging.getLogger("ray_committer").setLevel(LEVELS[min(ctx.meta[VERBOSE], 2)])

    text = "Log what happens; -vv logs more, with tracebacks."
    return click.Option(
        ["-v", "--verbose"], count=True, expose_value=False, is_eager=is_eager, callback=count, help=text
    )


def name_environment(command: click.Command) -> None:
    """Give each option of `command` its variable, which is the same for all commands."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_eager and option.allow_from_autoenv:
            option.envvar = f"{ENVIRONMENT_PREFIX}{option.name}".upper()
            option.show_envvar = True


class _Helpful(click.Command):
    """A command that shows its options in groups, and examples."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"context_settings": HELP, **kwargs})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(ctx, formatter)


class Command(_Helpful):
    """A command of ``ray-committer``; it also takes ``-v``, as the group does."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        name_environment(self)
        self.params.append(verbose_option(is_eager=True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        document.decide(ctx)
        return rest


class _HelpfulGroup(_Helpful, click.Group):
    """A group of commands; without a command, it shows its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(click.UsageError.exit_code)
        return super().parse_args(ctx, args)


class Subgroup(_HelpfulGroup):
    """A command that is a group of commands."""

    command_class = Command


class Group(_HelpfulGroup):
    """``ray-committer``: it turns every exception into three lines and an exit code.

    It prints the JSON document of each command, also if the command fails.

    `summaries` has a line of help for each command. The command is in the module with its name in this
    package, or in the module that `modules` names; it is imported only when the command is run.
    """

    command_class = Command

    def __init__(
        self, *, summaries: Mapping[str, str], modules: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.summaries = summaries
        self.modules = modules
        self.params.append(verbose_option())
        name_environment(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.summaries:
            return None
        name = cmd_name.replace("-", "_")
        module = self.modules.get(cmd_name, f"ray_committer.cli.{name}")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.summaries:
            what = f"no such command {args[0]!r}{did_you_mean(args[0], self.summaries)}"
            raise click.UsageError(what, ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as e:  # a wrong option before the name of the command
            if e.ctx is None:
                raise
            fail(e, e.ctx, with_traceback=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        document.begin(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, context: click.Context) -> Any:
        try:
            code = self._exit_code_of_command(context)
            document.print_document(context, code)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 - all of them are shown to the user
            fail(e, context, with_traceback=context.meta.get(VERBOSE, 0) > 1)
        if code:
            sys.exit(code)

    def _exit_code_of_command(self, context: click.Context) -> int:
        """Run the command; most of them return, which is 0."""
        try:
            super().invoke(context)
        except SystemExit as e:
            return int(e.code or 0)
        return 0
