"""Give the commit the destination and the identity that a job's tasks have, from Hadoop's settings.

Tasks write through Hadoop's file systems, the commit through fsspec's storage options. A setting with a
clear counterpart is translated. Without a counterpart, the error names Hadoop's key and the storage
option to give instead. The user's own options take precedence. Sources: Hadoop's "ABFS" and "S3A" pages,
Google's "CONFIGURATION.md", hdfs-native's README.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray_committer.protocol.uri import parse_uri
from ray_committer.spark.hadoop.abfs import abfs_options
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.gs import gs_options
from ray_committer.spark.hadoop.s3a import s3a_options
from ray_committer.stores.known import ALIASES
from ray_committer.stores.options import options_of

DEFAULT_FS = "fs.defaultFS"
UMASK = "fs.permissions.umask-mode"

_HDFS_KEYS = (
    "dfs.nameservices",
    "dfs.client.failover.random.order",
    "dfs.client.use.datanode.hostname",
    "dfs.data.transfer.protection",
    UMASK,
    "hadoop.security.authentication",
)
_HDFS_PREFIXES = ("dfs.ha.namenodes.", "dfs.namenode.rpc-address.", "dfs.client.failover.resolve")
"""Without retries and time-outs: ours are used, so that a lost answer is checked and not repeated."""


_Mapper = Callable[[str, HadoopConf, Mapping[str, Any]], dict[str, Any]]


def qualify(destination: str, conf: HadoopConf) -> str:
    """Return `destination` with a scheme: a path without one is on ``fs.defaultFS``."""
    if parse_uri(destination).scheme:
        return destination
    # "file:///" without its slashes is "file:", which needs two of them back.
    default = (conf.get(DEFAULT_FS) or "file:///").rstrip("/")
    return f"{default}{destination}" if not default.endswith(":") else f"{default}//{destination}"


def storage_options(
    destination: str, conf: HadoopConf, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the storage options of `destination`: Hadoop's settings, overridden by `given`, of which
    one credential replaces all of Hadoop's. Options that only another store knows are left out."""
    url = qualify(destination, conf)
    named = parse_uri(url).scheme
    scheme = ALIASES.get(named, named)
    given_here = options_of(scheme, given or {})
    read = _MAPPERS.get(scheme)
    return {**read(url, conf, given_here), **given_here} if read else given_here


def _hdfs(_url: str, conf: HadoopConf, _given: Mapping[str, Any]) -> dict[str, Any]:
    """Name services, and the other settings that both clients call the same."""
    keys = (key for key in conf.settings if key in _HDFS_KEYS or key.startswith(_HDFS_PREFIXES))
    return {key: value for key in keys if (value := conf.get(key))}


def _umask(_url: str, conf: HadoopConf, _given: Mapping[str, Any]) -> dict[str, Any]:
    umask = conf.get(UMASK)
    return {UMASK: umask} if umask else {}


def _abfs(url: str, conf: HadoopConf, given: Mapping[str, Any]) -> dict[str, Any]:
    options = abfs_options(url.partition(":")[0].lower(), parse_uri(url).authority, conf, given)
    return {**_umask(url, conf, given), **options}


_MAPPERS: dict[str, _Mapper] = {
    "hdfs": _hdfs,
    "webhdfs": _umask,
    "file": _umask,  # Hadoop also uses its own umask there, not the umask of the process
    "gs": lambda url, conf, given: gs_options(parse_uri(url).authority, conf, given),
    "abfs": _abfs,
    "s3": lambda url, conf, given: s3a_options(parse_uri(url).authority, conf, given),
}
