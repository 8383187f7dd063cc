"""The JSON document of a command with ``--output json``: its result, when it ran, and how it ended.

A command keeps its result here, and ``ray-committer`` prints it when the exit code is known. A command
that fails, or that is used wrongly, therefore also prints one document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import click
import msgspec

from ray_committer.options.settings import ENVIRONMENT_PREFIX

_KEY = __name__
_NO_ERROR: Mapping[str, str] = {}


@dataclass(slots=True)
class _Document:
    started_at: datetime
    is_wanted: bool
    result: dict[str, Any] | None = None
    outcome: str | None = None


def begin(ctx: click.Context, arguments: Sequence[str]) -> None:
    """Note when the call began, and whether its arguments, which can be wrong, ask for a document."""
    ctx.meta[_KEY] = _Document(datetime.now(UTC), _asks_for_json(arguments))


def decide(ctx: click.Context) -> None:
    """Let the options of a command, which are right, decide whether there is a document."""
    if _KEY in ctx.meta:
        is_json = ctx.params.get("output") == "json" or ctx.params.get("json", False)
        ctx.meta[_KEY].is_wanted = is_json


def keep(result: Any, *, outcome: str | None = None) -> None:
    """Keep the result of this command until the command ends: a dataclass, a mapping or None.

    The `outcome` of a commit does not depend on whether its report can be printed.
    """
    document = click.get_current_context().meta[_KEY]
    document.result = msgspec.to_builtins({} if result is None else result)
    document.outcome = outcome


def print_document(ctx: click.Context, exit_code: int, error: Mapping[str, str] = _NO_ERROR) -> None:
    """Print the document of the call, if a result was kept or an error is to be in one."""
    document = ctx.meta.get(_KEY)
    if document is None or (document.result is None and not (document.is_wanted and error)):
        return
    times = {"started_at": document.started_at, "ended_at": datetime.now(UTC)}
    fields = {**(document.result or {}), **times, "exit_code": exit_code, **error}
    text = to_json(fields, indent=2).encode()  # whatever the terminal has
    print_report(text, error.get("error_id", document.outcome))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return the JSON; characters of the names of files that are not UTF-8 are escaped."""
    try:
        text = msgspec.json.encode(value)
        return (text if indent is None else msgspec.json.format(text, indent=indent)).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), indent=indent)


def print_report(text: str | bytes, outcome: str | None, *, err: bool = False) -> None:
    """Print a report; if there is an outcome, the exit code depends on that alone."""
    try:
        click.echo(text, err=err)
    except OSError as e:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2 if err else 1)  # else it is tried again at the end
        if outcome is None:
            raise
        with suppress(OSError):
            text = f"ray-committer: the report could not be printed ({e.strerror}): {outcome}"
            click.echo(text, err=True)


def _asks_for_json(arguments: Sequence[str]) -> bool:
    given = [os.environ.get(f"{ENVIRONMENT_PREFIX}OUTPUT")]
    for word, after in pairwise([*arguments, ""]):
        if word == "--output":
            given.append(after)
        elif word.startswith("--output="):
            given.append(word.partition("=")[2])
    return given[-1] == "json"
