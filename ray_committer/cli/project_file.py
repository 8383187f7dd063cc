"""``ray-committer.toml``: options for destinations, by the beginning of their URLs.

Only commands read this file, never the library or a Spark job: a program passes its options itself. The
command line and the environment win over it. A file that is found by looking for it must be of this user
or of root, because it decides to which server credentials are sent.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from ray_committer.cli.help import did_you_mean
from ray_committer.errors import RayCommitterError, SettingsError
from ray_committer.options import TEXTS, read_option
from ray_committer.protocol.paths import is_inside

FILE = "ray-committer.toml"
EXECUTORS = ("auto", "threads", "inline", "ray")
PLACES = ("destination", "path")
"""The names of the argument that a section is chosen by."""
CONFIG = f"{__name__}.config"
"""The key of the file that ``--config`` names, in what all contexts of one call share."""
SECTION = f"{__name__}.section"
"""The key of the section that holds for this call."""

_KEYS = ("prefix", "executor", "storage_options", *TEXTS)
_SECRETS = {
    "account_key", "client_secret", "connection_string", "credential", "delegation_token", "key",
    "password", "sas_token", "secret", "token",
}  # fmt: skip
"""Storage options that stores, or fsspec, take for credentials."""
_METHODS = ("anon", "cloud", "google_default")
"""Values of a storage option ``token`` that are no secret: ways to find one."""
_VARIABLE = "RAY_COMMITTER_STORAGE_OPTIONS"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Section:
    """One ``[[destination]]`` of a file: `place` names it in errors; a commit has the `settings`."""

    place: str
    prefix: str
    settings: Mapping[str, Any]
    storage_options: Mapping[str, str]
    executor: str | None = None


def config_option() -> click.Option:
    """``--config``, for commands with a destination."""

    def note(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
        ctx.meta[CONFIG] = value

    return click.Option(
        ["--config"],
        metavar="FILE",
        expose_value=False,
        callback=note,
        help=f"The project file; default: {FILE} in this directory or one above it.",
    )


def use_project_file(ctx: click.Context) -> None:
    """Let the section of the project file for this command's destination hold.

    `SettingsError` names the file and the key that is wrong.
    """
    destination = next((ctx.params[name] for name in PLACES if ctx.params.get(name)), None)
    if destination is None or ctx.resilient_parsing:
        return
    config = ctx.meta.get(CONFIG)
    file = Path(config) if config else _found()
    if file is None:
        return
    given = dict(ctx.params.get("storage_options") or ())
    section = section_for(read_sections(file), destination, given)
    _log.info("%s holds", section.place if section else f"{file}: no section")
    if section is None:
        return
    ctx.meta[SECTION] = section
    if "storage_options" in ctx.params:
        ctx.params["storage_options"] = tuple({**section.storage_options, **given}.items())
    if section.executor and ctx.get_parameter_source("executor") is ParameterSource.DEFAULT:
        ctx.params["executor"] = section.executor


def section_for(
    sections: Sequence[Section], destination: str, given: Mapping[str, str]
) -> Section | None:
    """Return the section with the longest prefix that is the destination or a directory above it; None
    if there is none. `given` are the other storage options, on which the name of a store can depend."""
    from ray_committer.stores.registry import resolve_destination  # `--help` starts without stores

    fitting: dict[str, Section] = {}
    for section in sections:
        try:
            directory = f"{section.prefix.rstrip('/')}/"  # a bucket has none without a slash
            prefix, above = resolve_destination(directory, {**given, **section.storage_options})
        except RayCommitterError as e:
            raise SettingsError(f"{section.place}: prefix: {e.what}", e.advice) from e
        try:
            spec, path = resolve_destination(destination, {**section.storage_options, **given})
        except RayCommitterError:  # the command itself refuses it, or it is a database
            return None
        is_there = (prefix.scheme, prefix.authority) == (spec.scheme, spec.authority)
        if is_there and (path == above or is_inside(path, above)):
            if above in fitting:
                raise SettingsError(
                    f"{section.place}: prefix: is that of {fitting[above].place}, too",
                    "keep one of the two",
                )
            fitting[above] = section
    return fitting[max(fitting, key=len)] if fitting else None


def find_file(start: Path, home: Path | None) -> Path | None:
    """Return the first project file in `start` and the directories above it, up to `home` or `/`."""
    for directory in (start, *start.parents):
        if os.path.isfile(directory / FILE):  # also False where a directory may not be looked into
            return directory / FILE
        if directory == home:
            return None
    return None


def read_sections(file: Path) -> list[Section]:
    """Read a project file; `SettingsError` names the key that is wrong."""
    import tomllib  # few calls have a project file

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        why = (e.strerror or str(e)) if isinstance(e, OSError) else "is not UTF-8"
        raise SettingsError(f"{file}: {why}", "name a project file that can be read") from e
    except tomllib.TOMLDecodeError as e:
        raise SettingsError(f"{file}: is not TOML: {e}", "correct it") from e
    for key in document:
        if key != "destination":
            _refuse(str(file), key, "is not a key of this file; it has only [[destination]]")
    tables = document.get("destination", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        _refuse(str(file), "destination", "must be written as [[destination]]")
    return [_section(f"{file}: destination {number}", one) for number, one in enumerate(tables, 1)]


def _found() -> Path | None:
    """The project file of the working directory; `SettingsError` if another user can have written it."""
    file = None
    with suppress(FileNotFoundError):  # somebody has removed the working directory
        file = find_file(Path.cwd(), _home())
    if file is None:
        return None
    status = file.stat()
    if status.st_uid not in (0, os.getuid()) or status.st_mode & stat.S_IWOTH:
        raise SettingsError(
            f"{file}: belongs to another user, or all users can write it, so it is not used",
            "if you trust it, name it with --config",
        )
    return file


def _home() -> Path | None:
    """The home directory; None if this user has none, as in a container with a number of its own."""
    with suppress(RuntimeError):
        return Path.home()
    return None


def _section(place: str, table: Mapping[str, Any]) -> Section:
    for key in table:
        if key not in _KEYS:
            _refuse(place, key, f"is not a key of a destination{did_you_mean(key, _KEYS)}")
    prefix, executor = table.get("prefix"), table.get("executor")
    if not isinstance(prefix, str) or not (prefix.startswith("/") or "://" in prefix):
        _refuse(place, "prefix", "must be a URL or an absolute path")
    if executor is not None and executor not in EXECUTORS:
        _refuse(place, "executor", f"must be one of {', '.join(EXECUTORS)}")
    settings = {key: _setting(place, key, value) for key, value in table.items() if key in TEXTS}
    return Section(place, prefix, settings, _storage_options(place, table), executor)


def _setting(place: str, name: str, value: Any) -> Any:
    is_list = name == "exports" and isinstance(value, list)
    text = ",".join(map(str, value)) if is_list else _text(value)
    if text is None or (name == "summary_directory" and not isinstance(value, str)):
        _refuse(place, name, f"must be {TEXTS[name].meaning}")
    try:
        return read_option(name, text)
    except ValueError as e:
        _refuse(place, name, str(e))


def _storage_options(place: str, table: Mapping[str, Any]) -> dict[str, str]:
    options = table.get("storage_options", {})
    if not isinstance(options, dict):
        _refuse(place, "storage_options", "must be a table such as { project = 'p' }")
    found = {}
    for name, value in options.items():
        text = _text(value)
        if text is None:
            _refuse(place, f"storage_options.{name}", "must be a text, a number, true or false")
        if name in _SECRETS and not (name == "token" and text in _METHODS):
            raise SettingsError(
                f"{place}: storage_options.{name}: is a secret, which does not belong into this file",
                f"remove it, and set it in the variable {_VARIABLE}",
            )
        found[name] = text
    return found


def _text(value: Any) -> str | None:
    """A value as it is written on the command line; None for a list, a table or a time."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _refuse(place: str, key: str, why: str) -> NoReturn:
    raise SettingsError(f"{place}: {key}: {why}", "correct the project file; nothing was done")
