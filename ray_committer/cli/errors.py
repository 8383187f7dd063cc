"""Errors for a person on call: what is wrong, what to do, where to read more, and an exit code."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import click
from click.core import ParameterSource

from ray_committer.cli.document import print_document
from ray_committer.cli.help import did_you_mean
from ray_committer.errors import (
    CommitCancelledError,
    CommitStateUnknownError,
    RayCommitterError,
    SettingsError,
    StoreFailedError,
    StoreUnavailableError,
    ThrottledError,
)

BUG_ID = "RC-bug"
UNEXPECTED = "this is a bug in ray-committer: run the command again with -vv and report the output"
_STOPPED = ("stopped at once", "everything was kept; run the same command to finish")
_CHANGING = ("commit", "abort", "vacuum", "spark-job")


def fail(error: BaseException, ctx: click.Context, *, with_traceback: bool) -> NoReturn:
    """Print what is wrong, what to do and where to read more on standard error, and end the process.

    `ctx` is the context of ``ray-committer`` itself. Its command's document gets the same, as fields.
    """
    command = ctx.invoked_subcommand
    what, advice = what_and_advice(error, command)
    with suppress(OSError):  # the reader may be gone; the exit code does not depend on that
        if with_traceback:
            traceback.print_exception(error)
        click.echo(f"ray-committer: {_one_line(what)}", err=True)
        click.echo(f"  -> {_one_line(advice)}", err=True)
        click.echo(f"  see: {explain_command(error_id(error))}", err=True)
    code = exit_code(error, command)
    fields = {"error_id": error_id(error), "error_class": type(error).__name__}
    print_document(ctx, code, {**fields, "error_message": what, "error_advice": advice})
    sys.exit(code)


def explain_command(error_id: str) -> str:
    """Return the command that explains an error."""
    return f"ray-committer explain {error_id}"


def what_and_advice(error: BaseException, command: str | None = None) -> tuple[str, str]:
    """Return what is wrong and what to do."""
    if isinstance(error, RayCommitterError):
        return error.what, error.advice
    if isinstance(error, click.UsageError):
        name = f"ray-committer {command} --help" if command else "ray-committer --help"
        return _usage(error), f"see `{name}`"
    if isinstance(error, KeyboardInterrupt):
        return _STOPPED
    if isinstance(error, OSError):
        return what_and_advice(StoreFailedError.of(error))
    return f"{type(error).__name__}: {error}", UNEXPECTED


def error_id(error: BaseException) -> str:
    """Return the id of the error, which its section in ``docs/errors.md`` also has."""
    if isinstance(error, RayCommitterError | ThrottledError | StoreUnavailableError):
        return error.id
    if isinstance(error, click.UsageError):
        return SettingsError.id
    if isinstance(error, KeyboardInterrupt):
        return CommitCancelledError.id
    return StoreFailedError.id if isinstance(error, OSError) else BUG_ID


def exit_code(error: BaseException, command: str | None) -> int:
    """Return 1 if nothing visible was changed; 3 if a command that changes something cannot know."""
    if isinstance(error, RayCommitterError | click.UsageError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return CommitStateUnknownError.exit_code
    if isinstance(error, OSError):
        return RayCommitterError.exit_code
    return (CommitStateUnknownError if command in _CHANGING else RayCommitterError).exit_code


def _one_line(text: str) -> str:
    """Join the lines of a text: Ray's and clients' errors, and names of files, can have several."""
    return " ".join(text.splitlines())


def _usage(error: click.UsageError) -> str:
    """Write Click's errors in our style; a bad value is shown with its option or its variable."""
    if isinstance(error, click.NoSuchOption):
        known = error.possibilities or ()
        return f"no such option {error.option_name}{did_you_mean(error.option_name, known)}"
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        return f"{_given(error)}: {error.message}".rstrip(".")
    text = " ".join(error.format_message().split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _given(error: click.BadParameter) -> str:
    """The option or the variable that gave the value."""
    if error.param is None or error.ctx is None:
        return str(error.param_hint)
    source = error.ctx.get_parameter_source(error.param.name or "")
    variable = error.param.envvar
    if source is ParameterSource.ENVIRONMENT and isinstance(variable, str):
        return variable
    return error.param.opts[0]
