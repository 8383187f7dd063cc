"""Names of a container of Azure Data Lake Storage: Hadoop's with the account, fsspec's without it.

``abfss://container@account.dfs.core.windows.net/path`` and ``abfs://container/path`` with an
``account_name`` are the same place. Hadoop's form is the normal one, because it is complete. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

DEFAULT_SUFFIX = "core.windows.net"


class Container(NamedTuple):
    """A container; `account` and `host` (of the DFS endpoint) are empty if the URL has none."""

    name: str
    account: str
    host: str


def parse_authority(authority: str) -> Container:
    """Return the container that a URL's authority names, in either form."""
    name, _, host = authority.lower().rpartition("@")
    if not name:
        return Container(host, "", "")
    host = dfs_host(host)
    return Container(name, host.partition(".")[0], host)


def normal_authority(authority: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return `authority` in Hadoop's form if it, the options or the environment name the account."""
    container = parse_authority(authority)
    if container.host:
        return f"{container.name}@{container.host}"
    host = _host(options, environment)
    return f"{container.name}@{host}" if host else container.name


def is_same_container(authority: str, normal: str) -> bool:
    """Return whether a manifest's `authority` is the container `normal`; it can lack the account."""
    named = parse_authority(authority)
    if not named.host:
        return named.name == parse_authority(normal).name
    return f"{named.name}@{named.host}" == normal


def dfs_host(host: str) -> str:
    """Return the DFS host that belongs to a blob host; any other host is returned unchanged."""
    return host.replace(".blob.", ".dfs.", 1)


def blob_host(host: str) -> str:
    """Return the blob host that belongs to a DFS host; any other host is returned unchanged."""
    return host.replace(".dfs.", ".blob.", 1)


def _host(options: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return the DFS host of the account that adlfs would connect to; empty if nothing names one."""
    connection = _connection(
        options.get("connection_string") or environment.get("AZURE_STORAGE_CONNECTION_STRING", "")
    )
    account = (
        connection.get("accountname")
        or options.get("account_name")
        or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    )
    if not account:
        return ""
    named = options.get("account_host")
    if named and str(named).startswith(f"{account}."):
        return dfs_host(str(named).lower())
    return f"{account}.dfs.{connection.get('endpointsuffix', DEFAULT_SUFFIX)}".lower()


def _connection(text: str) -> dict[str, str]:
    """Return the settings of a connection string, by name in lower case."""
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip().lower(): value for name, _, value in pairs}
