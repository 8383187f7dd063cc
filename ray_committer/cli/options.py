"""Options that several commands share, and the settings of a commit as options.

A setting has the same name and the same format in Python, on the command line and in the environment,
because all of them are made from one table.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, cast, get_args

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.options.settings import Group, Setting, Where
from ray_committer.options.texts import Kind

F = TypeVar("F", bound=Callable[..., Any])
How = dict[str, Any]
"""The options and the storage options with which a command calls a function of the API."""


class Option(click.Option):
    """An option below one of the headings of the help."""

    def __init__(self, *args: Any, group: Group = Group.COMMON, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


option = partial(click.option, cls=Option)

job_id_option = option("--job-id", metavar="ID", help="The job to use if DEST holds several.")
executor_option = option(
    "--executor",
    type=click.Choice(get_args(ExecutorName)),
    default="auto",
    show_default=True,
    group=Group.TUNING,
    help="Where the commit runs. No Ray is started: ray uses one that is there.",
)
dry_run_option = option(
    "--dry-run", is_flag=True, group=Group.SAFETY, help="Show what would be done; change nothing."
)
output_option = option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the result on standard output.",
)


class StorageOption(click.ParamType):  # type: ignore[type-arg] # generic since click 8.2
    """``KEY=VALUE``; the environment can hold several, which are split as by a shell."""

    name = "KEY=VALUE"

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return shlex.split(rv)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key:
            self.fail(
                "it must be KEY=VALUE (the value is not shown, because it may be a secret)", param, ctx
            )
        return key, text


storage_option = option(
    "-o",
    "storage_options",
    multiple=True,
    group=Group.STORAGE,
    type=StorageOption(),
    help="A storage option under its fsspec name; can be repeated. Put secrets in the environment: "
    "others can read a command line.",
)


class Value(click.ParamType):  # type: ignore[type-arg]
    """A text of some kind, read as everywhere."""

    def __init__(self, kind: Kind, least: float | None = None) -> None:
        self.name = kind.unit
        self._kind = kind
        self._least = least

    def get_metavar(self, *_: Any, **_context: Any) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind.value(value, self._least) if isinstance(value, str) else value
        except ValueError as e:
            self.fail(f"{value!r} {e}", param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._kind.words if word.startswith(incomplete)]


class _Truth(Value, click.types.BoolParamType):
    """A setting that is a flag on the command line, and true or false in the environment."""


REQUESTS = ("max_requests_per_second", "threads", "retry_seconds")
"""The settings of commands that make many requests."""


def at_store(
    *names: str, of: type[CommitOptions] = CommitOptions, has_output: bool = True
) -> Callable[[F], F]:
    """Give a command options for these settings, or for all, storage options, and ``--output``.

    It gets `how`, with which it calls a function of the API: ``options`` and ``storage_options``.
    """
    rows = of.settable(Where.COMMAND_LINE)

    def decorate(command: F) -> F:
        @wraps(command)
        def run(*, storage_options: tuple[tuple[str, str], ...], **given: Any) -> Any:
            how = {"options": commit_options(of), "storage_options": dict(storage_options)}
            rest = {name: value for name, value in given.items() if name not in parameters}
            return command(how=how, **rest)

        parameters = {row.parameter for row in rows.values()}
        decorated: Any = storage_option(output_option(run) if has_output else run)
        for name in reversed(names or tuple(rows)):
            decorated = setting(name, of=of)(decorated)
        return cast("F", decorated)

    return decorate


def setting(
    name: str, help_text: str = "", *, of: type[CommitOptions] = CommitOptions
) -> Callable[[F], F]:
    """An option for a setting; `help_text` if it means something of its own for a command."""
    row = of.rows[name]
    if row.kind is None:
        raise ValueError(f"{name} cannot be set on the command line")
    return option(
        f"--{row.spelled}/--no-{row.spelled}" if row.is_flag else f"--{row.spelled}",
        row.parameter,
        type=(_Truth if row.is_flag else Value)(row.kind, row.least),
        multiple=row.is_many,
        default=None,
        group=row.group,
        help=help_text or row.about + _default(row),
    )


def commit_options(of: type[CommitOptions] = CommitOptions) -> CommitOptions:
    """Return the options of this command: the environment's, overridden by the command's own."""
    context = click.get_current_context()
    given = {
        row.name: context.params[row.parameter]
        for row in of.settable(Where.COMMAND_LINE).values()
        if context.get_parameter_source(row.parameter) in _GIVEN
    }
    return of.from_env(os.environ).changed(**given)


_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _default(row: Setting) -> str:
    """What the help says of the default of a setting."""
    if row.default in (None, ()):
        return ""
    if row.is_flag:
        return f"  [default: {'' if row.default else 'no-'}{row.spelled}]"
    return f"  [default: {row.text(row.default)}]"
