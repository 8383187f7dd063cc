"""Options that several commands share, and the settings of a commit as options.

A setting has the same name and the same format in Python, on the command line and in the environment,
because `ray_committer.options` reads all of them.
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

job_id_option = click.option("--job-id", metavar="ID", help="The job to use if DEST holds several.")
attempt_option = click.option(
    "--attempt", type=click.IntRange(min=0), help="The job attempt to use if there are several."
)
allowed_root_option = click.option(
    "--allowed-root",
    multiple=True,
    metavar="DIR",
    help="A directory outside DEST that the job is allowed to write to, or to replace files in.",
)
executor_option = click.option(
    "--executor",
    type=click.Choice(["auto", "threads", "inline", "ray"]),
    default="auto",
    show_default=True,
    help="Where the commit runs. No Ray is started: ray uses one that is there.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
output_option = click.option(
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


storage_option = click.option(
    "-o",
    "storage_options",
    multiple=True,
    type=StorageOption(),
    help="A storage option under its fsspec name; can be repeated. Put secrets in the environment: "
    "others can read a command line.",
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
    """A setting, read by `ray_committer.options`."""

    def __init__(self, setting: str) -> None:
        self.name = setting.rpartition("_")[2].upper()
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return read_option(self._setting, value) if isinstance(value, str) else value
        except ValueError as e:
            self.fail(f"{value!r} {e}", param, ctx)


class _Truth(click.types.BoolParamType):
    """A setting that is a flag on the command line, and true or false in the environment."""

    def __init__(self, setting: str) -> None:
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _Text(self._setting).convert(value, param, ctx)


FLAGS = {
    "keep_replaced": "In a table with a log, keep the files that the job replaces; default: as the "
    "table says.",
    "mark_success": "Write _SUCCESS.",
    "cleanup": "Remove the job's directory after the commit.",
    "validate": "Compare each directory before the job is committed; default: where a listing is cheap.",
    "durable": "Force the commit to disk, so that a power cut cannot undo it.",
    "export_delta": "Export a table with a log as a Delta table after the commit.",
    "finish_others": "Finish a recorded job that is in the way and whose process has died.",
}
SETTINGS = {
    "max_requests_per_second": "The limit of requests to the store for all processes together, or none.",
    "threads": "Parallel requests in this process.",
    "workers": "Workers on Ray, or auto: two per node.",
    "worker_threads": "Parallel requests in each worker.",
    "worker_cpus": "CPUs that each worker asks Ray for.",
    "run_id": "What this job does once: in a table with a log, work that was committed under this id is "
    "not committed again.",
    "retry_seconds": "How long to repeat a request that the store throttles or does not answer.",
    "conflict_wait_seconds": "How long to wait for other commits that must end first.",
    "unfinished": "What to do with an earlier job that was recorded and whose process has died: finish, "
    "supersede or refuse; auto supersedes it if this job replaces all that it writes.",
    "catalog_table": "A table of a catalog, as DB.TABLE: the report has the command that tells the "
    "catalog of the partitions.",
    "summary_directory": "The directory for summary-JOB.json: a URL, or a path on the store of DEST.",
}
REQUESTS = ("max_requests_per_second", "threads", "retry_seconds")
"""The settings of commands that make many requests."""
EVERY_SETTING = (*SETTINGS, *FLAGS)


def settings(names: Sequence[str]) -> Callable[[F], F]:
    """Give a command options for these settings; `commit_options` reads them."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def setting(name: str, help_text: str) -> Callable[[F], F]:
    """An option for a setting that means something of its own for a command."""
    return click.option(f"--{name.replace('_', '-')}", name, type=_Text(name), help=help_text)


def flag(name: str, help_text: str) -> Callable[[F], F]:
    """An option that sets a setting to true or false; None if neither is given."""
    spelled = name.replace("_", "-")
    both = f"--{spelled}/--no-{spelled}"
    return click.option(both, name, type=_Truth(name), default=None, help=help_text)


def commit_options(**facts: Any) -> CommitOptions:
    """Return the options of this command: those of the environment, overridden by the command's settings
    and by `facts`."""
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
        return flag(name, FLAGS[name] + shown)
    shown = "" if default is None else f"  [default: {default:g}]"
    return click.option(f"--{spelled}", name, type=_Text(name), help=SETTINGS[name] + shown)
