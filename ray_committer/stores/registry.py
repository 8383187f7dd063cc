"""The store for each URL, and why others are refused; no other module of stores reads schemes."""

from __future__ import annotations

import os
import platform
import re
import shlex
import time
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ray_committer.errors import PathError, SettingsError, StoreRefusedError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.protocol.uri import Location, format_uri, normal_path, parse_uri
from ray_committer.stores.addresses import LOOKS_LIKE_PASSWORD, without_password
from ray_committer.stores.adls.names import is_same_container, normal_authority
from ray_committer.stores.base import StoreOperations, StoreSpec, missing_operations
from ray_committer.stores.known import ALIASES, STORES
from ray_committer.stores.local import LocalStore
from ray_committer.stores.options import refuse_unknown, with_flags

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_REFUSED = {
    "wasb": ("this store renames by copying", "use abfss:// with a hierarchical namespace"),
    "az": ("this store renames by copying", "use abfss:// with a hierarchical namespace"),
    "adl": ("this service was shut down", "use abfss:// with a hierarchical namespace"),
    "oss": ("this store renames by copying", "use the committer of its Hadoop client"),
    "cosn": ("this store renames by copying", "use the committer of its Hadoop client"),
    "obs": ("this store renames by copying", "use the committer of its Hadoop client"),
    "http": ("nothing can be renamed there", "write to a file system that all nodes mount"),
    "ftp": ("a rename may replace a file there", "mount it and use a path, if the mount renames safely"),
    "sftp": (
        "a rename may replace a file there",
        "mount it and use a path, if the mount renames safely",
    ),
    "smb": ("a rename may replace a file there", "mount it and use a path"),
    "viewfs": ("it is a view of other file systems", "name the file system behind it"),
    "zip": (
        "nothing can be renamed in an archive",
        "write to a directory, and pack it after the commit",
    ),
    "memory": ("other processes cannot see it", "use a path of a file system"),
}
_ALIASES = {
    **ALIASES,
    "wasbs": "wasb",
    "https": "http",
    "ssh": "sftp",
    "cos": "cosn",
    "tar": "zip",
    "libarchive": "zip",
    "har": "zip",
}
_DATABASES = ("postgresql", "postgres", "sqlite")
OPEN_SECONDS = 60.0
_OWN_STORES = "ray_committer.stores"
"""The entry point group of packages that have a store of their own, by its scheme."""
_ANOTHER_VERSION = "install a version of its package that fits this version of ray-committer"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
_CHAIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+::.*:/")


def is_url(text: str) -> bool:
    """Whether a text is a URL, and not a path."""
    return _URL.match(text) is not None


def resolve_destination(
    destination: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[StoreSpec, str]:
    """Return the store of `destination` and its path there.

    A URL is quoted as Hadoop and fsspec write it; anything else is a local path, taken as it is.
    `StoreRefusedError` names a store that cannot rename safely and what to use instead.
    """
    if not destination.strip():
        raise SettingsError(
            "the destination is empty", "name a directory or a URL; a variable may not be set"
        )
    if (scheme := destination.partition(":")[0].lower()) in _DATABASES:  # the rest may be a password
        raise StoreRefusedError(
            f"{scheme}:...: is a database, not a directory",
            "for jobs whose rows go into a table, use `ray-committer records`",
        )
    # Before any error below: each of them names the destination.
    shown = without_password(destination)
    if _CHAIN.match(destination):
        raise StoreRefusedError(
            f"{shown}: cannot be committed to: it goes through other file systems",
            "name the file system behind them",
        )
    if not is_url(destination) and LOOKS_LIKE_PASSWORD.match(destination):
        raise StoreRefusedError(
            f"{shown}: looks like a URL with a password, but is none",
            "correct the URL; if it is a path, write ./ before it",
        )
    if is_url(destination):
        try:
            location = parse_uri(destination)
        except PathError as e:
            raise PathError(*map(without_password, e.args)) from None
    else:
        location = Location("file", "", normal_path(os.path.abspath(destination)))
    scheme = _scheme(location.scheme)
    if scheme in STORES and STORES[scheme].is_bucket:
        _refuse_secrets(scheme, location.authority, shown)
    options = with_flags(scheme, storage_options or {})
    # One spelling for one place: jobs that write to the same directory must find each other.
    is_azure, authority = scheme == "abfs", location.authority
    normal = normal_authority(authority, options, os.environ) if is_azure else authority
    spec = StoreSpec(scheme, normal, options)
    _check_supported(spec, shown)
    return spec, location.path


def _refuse_secrets(scheme: str, authority: str, shown: str) -> None:
    """`StoreRefusedError` if a bucket or container is named with more: it would be shown as its name."""
    bucket, at, _ = authority.partition("@")
    has_query = "?" in authority or "#" in authority
    if ":" in bucket or has_query or (scheme != "abfs" and at):
        raise StoreRefusedError(
            f"{shown}: the URL has a user, a password or a query, which nobody reads there",
            "give credentials as storage options, or in the environment",
        )


def _scheme(named: str) -> str:
    """Return the one name of a scheme; a package with a store can have a name that is else an alias."""
    scheme = _ALIASES.get(named, named)
    return named if scheme not in STORES and own_store(named) else scheme


def is_on_store(location: Location, scheme: str, authority: str) -> bool:
    """Return whether `location` is on the store that has this normal `scheme` and `authority`."""
    if location.scheme == scheme == "abfs":
        return is_same_container(location.authority, authority)
    if scheme == "s3":
        return _ALIASES.get(location.scheme, location.scheme) == "s3" and location.authority == authority
    return (location.scheme, location.authority) == (scheme, authority)


def renames_are_local(destination: str) -> bool:
    """Return whether one machine's kernel makes the renames at a destination."""
    spec, _ = resolve_destination(destination)
    return spec.scheme == "file" and LocalStore.capabilities.renames_are_local


def open_store(spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS) -> StoreOperations:
    """Open the store that `spec` describes, in any process; a remote one stays open for a minute.

    A store of this package that does not answer fails its first requests within `retry_seconds`.
    `StoreRefusedError` if it cannot rename safely, or a package that it needs is not installed;
    `SettingsError` if it does not know one of the storage options.
    """
    shown = without_password(f"{spec.scheme}://{spec.authority}")
    _check_supported(spec, shown)
    refuse_unknown(spec, shown)
    if spec.scheme == "file":
        return LocalStore(spec)
    return open_stores.get((spec, retry_seconds), lambda: _open(spec, shown, retry_seconds))


def fsspec_url(spec: StoreSpec, path: str) -> str:
    """Return fsspec's name of `path`: a local path as it is, any other as an unquoted URL."""
    return path if spec.scheme == "file" else f"{spec.scheme}://{spec.authority}{path}"


def fsspec_options(spec: StoreSpec) -> Mapping[str, Any]:
    """Return the storage options with which fsspec opens files where the commit puts them."""
    if spec.scheme == "abfs":
        from ray_committer.stores.adls.open import adlfs_options

        return adlfs_options(spec)
    if spec.scheme == "webhdfs":
        from ray_committer.stores.hdfs.webhdfs import fsspec_options as webhdfs_options

        return webhdfs_options(spec)
    return spec.storage_options


def destination_url(spec: StoreSpec, path: str) -> str:
    """Return `path` as given to `resolve_destination`: a local path as it is, else a quoted URL."""
    return path if spec.scheme == "file" else format_uri(Location(spec.scheme, spec.authority, path))


def shown_url(spec: StoreSpec, path: str) -> str:
    """Return `destination_url` without the password that a URL can contain, for logs and reports."""
    user, at, host = spec.authority.rpartition("@")
    shown = user.partition(":")[0] + at + host
    return destination_url(StoreSpec(spec.scheme, shown, {}), path)


def located(spec: StoreSpec, text: str) -> str:
    """Make a URL, unquoted, of the path with which a text begins, for readers with several stores."""
    return f"{shown_url(spec, '')}{text}" if text.startswith("/") else text


def store_command(spec: StoreSpec, verb: Literal["rm", "mv"], *paths: str) -> str:
    """Return the command with which a user of the store removes or moves files, ready to be pasted."""
    tool = STORES[spec.scheme].tool if spec.scheme in STORES else "hdfs dfs -"
    return f"{tool}{verb} {shlex.join(located(spec, path) for path in paths)}"


class OpenStores:
    """The stores that are open in this process, each for `OPEN_SECONDS`: task attempts share one, since
    opening it costs requests. It keeps its credentials and settings, so it is opened anew after that
    time, in another environment, and in a child. No lock: a child could inherit it locked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Hashable, tuple[float, StoreOperations]] = {}

    def get(self, how: Hashable, open_it: Callable[[], StoreOperations]) -> StoreOperations:
        """Return the store that was opened in the way `how`, or open it."""
        # The environment holds credentials and addresses, and a test or a notebook changes it.
        key = how, os.getpid(), tuple(os.environ.items())
        now = self._clock()
        fresh = {way: (until, store) for way, (until, store) in self._found.items() if until > now}
        if key not in fresh:
            fresh[key] = now + OPEN_SECONDS, open_it()
        self._found = fresh
        return fresh[key][1]

    def clear(self) -> None:
        """Open all stores anew."""
        self._found = {}


open_stores = OpenStores()


def _open(spec: StoreSpec, shown: str, retry_seconds: float) -> StoreOperations:
    entry_point = None if spec.scheme in STORES else own_store(spec.scheme)
    if entry_point is not None:
        return _open_own(entry_point, spec, shown)
    try:
        module, _, name = STORES[spec.scheme].opened_by.partition(":")
        opened: StoreOperations = getattr(import_module(module), name)(spec, retry_seconds=retry_seconds)
        return opened
    except ModuleNotFoundError as e:
        raise StoreRefusedError(
            f"{shown}: {e.name} is not installed on {platform.node()}",
            f"install ray-committer[{STORES[spec.scheme].extra}] on all nodes",
        ) from e


@lru_cache
def own_store(scheme: str) -> EntryPoint | None:
    """Return the entry point of the installed package that has a store for `scheme`."""
    from importlib.metadata import entry_points  # most commits are to a store of this package

    entries = {entry.value: entry for entry in entry_points(group=_OWN_STORES, name=scheme)}
    if len(entries) > 1:
        raise StoreRefusedError(
            f"{scheme}://: several installed packages have a store for it: {', '.join(sorted(entries))}",
            "uninstall all but one",
        )
    return next(iter(entries.values()), None)


def _open_own(entry_point: EntryPoint, spec: StoreSpec, shown: str) -> StoreOperations:
    try:
        opened = entry_point.load()
    except (ImportError, AttributeError) as e:
        raise StoreRefusedError(
            f"{shown}: its store {entry_point.value} cannot be loaded on {platform.node()}: {e}",
            "install the package of that store on all nodes",
        ) from e
    if not callable(opened):
        raise StoreRefusedError(
            f"{shown}: the entry point {entry_point.value} is not a function that opens a store",
            "name one in the package, as MODULE:FUNCTION",
        )
    try:
        store = opened(spec)
    except TypeError as e:  # such as a class without a method that each store must have
        raise StoreRefusedError(
            f"{shown}: its store {entry_point.value} cannot be opened: {e}", _ANOTHER_VERSION
        ) from e
    if not isinstance(store, StoreOperations):
        what = f"{type(store).__name__}, which is not a subclass of StoreOperations"
        raise StoreRefusedError(f"{shown}: its store {entry_point.value} is a {what}", _ANOTHER_VERSION)
    if missing := missing_operations(store):
        raise StoreRefusedError(
            f"{shown}: its store {entry_point.value} lacks operations: {', '.join(missing)}",
            _ANOTHER_VERSION,
        )
    return store


def _check_supported(spec: StoreSpec, shown: str) -> None:
    if spec.scheme in STORES and not (spec.scheme == "file" and spec.authority):
        return
    if spec.scheme != "file" and own_store(spec.scheme):
        return
    known = ", ".join(f"{scheme}://" for scheme in STORES)
    install = f"write to one of these, or install a package that has a store for it on {platform.node()}"
    default = (f"only {known} are known to rename safely", install)
    why, instead = _REFUSED.get(spec.scheme, default)
    raise StoreRefusedError(f"{shown}: cannot be committed to: {why}", instead)
