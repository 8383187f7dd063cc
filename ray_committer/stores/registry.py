"""Which URL gets which store, and which is refused and why: the only place that knows schemes."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from ray_committer.errors import StoreRefusedError
from ray_committer.protocol.uri import Location, normal_path, parse_uri
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore

_REFUSED = {
    "s3": "S3 has no rename, so moving a file is a copy; use Hadoop's S3A committers there",
    "wasb": "this store renames by copying; use abfss:// with a hierarchical namespace",
    "az": "this store renames by copying; use abfss:// with a hierarchical namespace",
}
_EXTRAS: dict[str, str] = {"hdfs": "hdfs", "webhdfs": "hdfs"}
"""The optional dependencies of each remote store, by its scheme."""
_ALIASES = {"s3a": "s3", "s3n": "s3", "wasbs": "wasb", "local": "file", "": "file"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


def resolve_destination(
    destination: str, storage_options: Mapping[str, Any] | None = None
) -> tuple[StoreSpec, str]:
    """Return the store of `destination` and its path there.

    A URL is quoted as Hadoop and fsspec write it; anything else is a local path, taken as it is.
    `StoreRefusedError` names a store that cannot rename safely and what to use instead.
    """
    if _URL.match(destination):
        location = parse_uri(destination)
    else:
        location = Location("file", "", normal_path(os.path.abspath(destination)))
    scheme = _ALIASES.get(location.scheme, location.scheme)
    spec = StoreSpec(scheme, location.authority, dict(storage_options or {}))
    _check_supported(spec, destination)
    return spec, location.path


def open_store(spec: StoreSpec) -> StoreOperations:
    """Open the store that `spec` describes, in any process.

    `StoreRefusedError` if it cannot rename safely, or what it needs is not installed.
    """
    shown = f"{spec.scheme}://{spec.authority}"
    _check_supported(spec, shown)
    if spec.scheme == "file":
        return LocalStore(spec)
    extra = _EXTRAS[spec.scheme]
    try:
        return _open_remote(spec)
    except ModuleNotFoundError as e:
        raise StoreRefusedError(
            f"{shown}: {e.name} is not installed on {platform.node()}; install ray-committer[{extra}] "
            f"on all nodes"
        ) from e


def fsspec_url(spec: StoreSpec, path: str) -> str:
    """How fsspec names `path`: a local path as it is, any other as a URL, which fsspec never quotes."""
    return path if spec.scheme == "file" else f"{spec.scheme}://{spec.authority}{path}"


def _open_remote(spec: StoreSpec) -> StoreOperations:
    """Open a store whose client is imported only where it is used."""
    match spec.scheme:
        case "hdfs" if not spec.storage_options.get("webhdfs_url"):
            from ray_committer.stores.hdfs import HdfsStore

            return HdfsStore(spec)
        case "hdfs" | "webhdfs":
            from ray_committer.stores.webhdfs import WebHdfsStore

            return WebHdfsStore(spec)
        case _:
            raise AssertionError(f"{spec.scheme}: is in the table of stores and has no class")


def _check_supported(spec: StoreSpec, shown: str) -> None:
    if spec.scheme in _EXTRAS or (spec.scheme == "file" and not spec.authority):
        return
    known = ", ".join(f"{scheme}://" for scheme in ("file", *_EXTRAS))
    reason = _REFUSED.get(spec.scheme, f"only {known} are known to rename safely")
    raise StoreRefusedError(f"{shown}: cannot be committed to: {reason}")
