"""How a container of Azure Data Lake Storage is named: by Hadoop with its account, by fsspec without.

``abfss://container@account.dfs.core.windows.net/path`` and ``abfs://container/path`` with an
``account_name`` are one place. Hadoop's form is the normal one, since it says all. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

DEFAULT_SUFFIX = "core.windows.net"


class Container(NamedTuple):
    """A container; `account` and `host` (of the DFS endpoint) are empty if the URL does not tell."""

    name: str
    account: str
    host: str


def parse_authority(authority: str) -> Container:
    """The container that a URL's authority names, in either form."""
    name, _, host = authority.lower().rpartition("@")
    if not name:
        return Container(host, "", "")
    host = dfs_host(host)
    return Container(name, host.partition(".")[0], host)


def normal_authority(authority: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """`authority` in Hadoop's form, if the storage options or the environment name the account."""
    container = parse_authority(authority)
    if container.host:
        return f"{container.name}@{container.host}"
    host = _host(options, environment)
    return f"{container.name}@{host}" if host else container.name


def is_same_container(authority: str, normal: str) -> bool:
    """Whether a manifest's `authority` is the container `normal`; one without an account is its own."""
    found = parse_authority(authority)
    if not found.host:
        return found.name == parse_authority(normal).name
    return f"{found.name}@{found.host}" == normal


def dfs_host(host: str) -> str:
    """The host of the DFS endpoint beside a blob endpoint; any other host is taken as it is."""
    return host.replace(".blob.", ".dfs.", 1)


def blob_host(host: str) -> str:
    """The host of the blob endpoint beside a DFS endpoint; any other host is taken as it is."""
    return host.replace(".dfs.", ".blob.", 1)


def _host(options: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """The DFS host of the account that adlfs would connect to, empty if nothing names one."""
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
    """The settings of a connection string, by name in lower case."""
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip().lower(): value for name, _, value in pairs}
