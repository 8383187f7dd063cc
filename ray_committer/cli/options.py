"""Options that several commands share, and the settings of a commit as options.

A setting has one name, one way to be written and one variable, in Python, on the command line and in the
environment, because `ray_committer.options` reads all of them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ray_committer.options import TEXTS, CommitOptions, read_option, read_seconds

F = TypeVar("F", bound=Callable[..., Any])

job_id_option = click.option("--job-id", metavar="ID", help="Which job, if DEST holds several.")
attempt_option = click.option(
    "--attempt", type=click.IntRange(min=0), help="Which attempt of the job, if there are several."
)
allowed_root_option = click.option(
    "--allowed-root",
    multiple=True,
    metavar="DIR",
    help="A directory outside of DEST to which the job may have written, or where it replaces files.",
)
executor_option = click.option(
    "--executor",
    type=click.Choice(["auto", "threads", "inline", "ray"]),
    default="auto",
    show_default=True,
    help="Where it runs; auto never starts a Ray.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, change nothing.")
output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What standard output is given.",
)


class StorageOption(click.ParamType):  # type: ignore[type-arg] # generic since click 8.2
    """``KEY=VALUE``; in the environment several, as a shell would take them apart."""

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
            self.fail("it must be KEY=VALUE (it is not shown, since it may be a secret)", param, ctx)
        return key, text


storage_option = click.option(
    "-o",
    "storage_options",
    multiple=True,
    type=StorageOption(),
    help="A storage option, as fsspec names it; may be repeated. Secrets are better kept in the "
    "environment: others can read a command line.",
)


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A time with its unit: 10s, 5m, 1h, 7d; at least `least` seconds."""

    name = "TIME"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = value if isinstance(value, float) else read_seconds(value)
        except ValueError as e:
            self.fail(f"{value!r} {e}", param, ctx)
        if seconds < self._least:
            self.fail(f"{value!r} must be at least {self._least:g} seconds", param, ctx)
        return seconds


class _Text(click.ParamType):  # type: ignore[type-arg]
    """One of the settings, as `ray_committer.options` reads it."""

    def __init__(self, setting: str) -> None:
        self.name = setting.rpartition("_")[2].upper()
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return read_option(self._setting, value) if isinstance(value, str) else value
        except ValueError as e:
            self.fail(f"{value!r} {e}", param, ctx)


class _Truth(click.types.BoolParamType):
    """The same for what is a flag, and in the environment true or false."""

    def __init__(self, setting: str) -> None:
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _Text(self._setting).convert(value, param, ctx)


FLAGS = {
    "mark_success": "Write _SUCCESS.",
    "cleanup": "Remove the job's directory after the commit.",
    "validate": "List each directory and compare, before the commit counts; else where that is cheap.",
    "durable": "Let a power cut after the commit take nothing back.",
    "delete_blocking_files": "Remove a file that stands where a directory must go.",
}
SETTINGS = {
    "max_requests_per_second": "The most requests to the store, of all processes together, or none.",
    "threads": "Requests at once, in this process.",
    "workers": "Workers on Ray, or auto: two a node.",
    "worker_threads": "Requests at once, in each worker.",
    "worker_cpus": "CPUs that each worker asks Ray for.",
    "worker_start_seconds": "How long a worker may take to start.",
    "shard_files": "The most files that a worker is given at once, or auto.",
    "retry_seconds": "How long a request is repeated that the store throttles or does not answer.",
    "conflict_wait_seconds": "How long to wait for other commits that must end first.",
    "lease_seconds": "How long a process goes on that cannot ask whether it may.",
    "rename_attempts": "Tries of a rename that failed and proved not to have happened.",
    "summary_directory": "Where summary-JOB.json is written; on the store of DEST.",
}
REQUESTS = ("max_requests_per_second", "threads", "retry_seconds")
"""The settings of whatever makes many requests."""
EVERY_SETTING = (*SETTINGS, *FLAGS)


def settings(names: Sequence[str]) -> Callable[[F], F]:
    """Give a command options for these settings; `commit_options` reads them."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def commit_options(**facts: Any) -> CommitOptions:
    """The options of this command: the environment, over that its own settings, and `facts`."""
    context = click.get_current_context()
    given = {
        name: value
        for name, value in context.params.items()
        if name in TEXTS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return CommitOptions.from_env(os.environ).changed(**given, **facts)


def _option(name: str) -> Callable[[F], F]:
    spelled = name.replace("_", "-")
    default = getattr(CommitOptions(), name)
    if name in FLAGS:
        shown = "" if default is None else f"  [default: {'' if default else 'no-'}{spelled}]"
        both, kind = f"--{spelled}/--no-{spelled}", _Truth(name)
        return click.option(both, name, type=kind, default=None, help=FLAGS[name] + shown)
    shown = "" if default is None else f"  [default: {default:g}]"
    return click.option(f"--{spelled}", name, type=_Text(name), help=SETTINGS[name] + shown)
