"""Who ran a commit, where, with which versions and options, and where its files are: for the report."""

from __future__ import annotations

import getpass
import platform
import socket
import sys
from collections.abc import Iterator
from typing import Any

from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.report.command import repeat_command
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.recording import Recording
from ray_committer.stages.context import JobContext
from ray_committer.stores.addresses import without_password
from ray_committer.stores.known import STORES
from ray_committer.stores.registry import shown_url
from ray_committer.version import __version__

_SHOWN = 5


def report_run(
    recording: Recording, context: JobContext, result: CommitResult, *, catalog_command: str = ""
) -> CommitReport:
    """The report of a run that has ended with `result`."""
    return recording.report(
        result,
        command=repeat_command(result, context.options),
        storage_options=sorted(context.store.spec.storage_options),
        catalog_command=catalog_command,
        host=socket.gethostname(),
        user=_user(),
        versions=dict(_versions(context)),
        options=dict(_options(context.options)),
        links=dict(_links(context, result)),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return ""


def _versions(context: JobContext) -> Iterator[tuple[str, str]]:
    yield "ray_committer", __version__
    yield "Python", platform.python_version()
    if context.executor.starts_workers and "ray" in sys.modules:
        yield "Ray", sys.modules["ray"].__version__
    store = STORES.get(context.store.spec.scheme)
    for package in store.libraries if store else ():
        from importlib import metadata  # slow to import, and commits to local files do not need it

        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # not every way to sign in needs it


def _options(options: CommitOptions) -> Iterator[tuple[str, str]]:
    for name, row in options.rows.items():
        value = getattr(options, name)
        if value != row.default and row.kind is not None:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        more = len(value) - _SHOWN
        return ", ".join([*map(_text, value[:_SHOWN]), *([f"and {more:,} more"] if more > 0 else [])])
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else without_password(str(value))


def _links(context: JobContext, result: CommitResult) -> Iterator[tuple[str, str]]:
    yield "destination", context.url
    has_success = names.SAVE_SUCCESS in result.stage_seconds
    if has_success and context.journal.failed_stage != names.SAVE_SUCCESS:
        yield "_SUCCESS", shown_url(context.store.spec, context.job.success)
    if context.journal.summary:
        yield "summary", context.journal.summary
