"""The stores of this package, by the scheme of their URLs: one table, which knows each by name.

The names of storage options are gcsfs's and adlfs's, as far as they make sense for a commit or for the
files of Python's tasks. A session that writes to several stores needs them without these packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from ray_committer.stores.hdfs.protocol import MAX_ITEMS, UMASK


class Kind(Enum):
    """What the value of an option is."""

    ANY = auto()
    FLAG = auto()
    FLAG_OR_TEXT = auto()


def _all(names: str, kind: Kind = Kind.ANY) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


_FSSPEC = {
    **_all("listings_expiry_time max_paths"),
    **_all("skip_instance_cache use_listings_cache", Kind.FLAG),
}
_GCSFS = {
    **_all(
        "access block_size cache_timeout consistency default_location endpoint_url project "
        "requests_timeout session_kwargs timeout token"
    ),
    **_all("check_connection finalize_on_close secure_serialize version_aware", Kind.FLAG),
    "requester_pays": Kind.FLAG_OR_TEXT,  # the text is the project that pays
}
_ADLFS = {
    **_all(
        "account_host account_key account_name blocksize client_id client_secret connection_string "
        "connection_timeout credential default_cache_type location_mode max_concurrency read_timeout "
        "sas_token tenant_id timeout"
    ),
    **_all("anon assume_container_exists default_fill_cache version_aware", Kind.FLAG),
}
_IDENTITY = {
    **_all(
        "authority managed_identity_client_id process_timeout workload_identity_client_id "
        "workload_identity_tenant_id"
    ),
    **_all(
        "exclude_cli_credential exclude_developer_cli_credential exclude_environment_credential "
        "exclude_managed_identity_credential exclude_powershell_credential "
        "exclude_shared_token_cache_credential exclude_workload_identity_credential",
        Kind.FLAG,
    ),
}
"""The arguments of ``DefaultAzureCredential`` for a program, which adlfs passes on."""
_HADOOP = _all(f"{UMASK} {MAX_ITEMS}")
_WEBHDFS = _all("delegation_token user webhdfs_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStore:
    """What is known of a store before it is opened."""

    opened_by: str
    """MODULE:FUNCTION, called with a `StoreSpec` and `retry_seconds`; the module imports the client."""
    extra: str
    """The optional dependencies that it needs."""
    libraries: tuple[str, ...]
    """The packages that make its requests, and those that find its credentials."""
    options: Mapping[str, Kind]
    """Its storage options."""
    aliases: tuple[str, ...] = ()
    """Other schemes of its URLs."""
    tool: str = "hdfs dfs -"
    """Its command line, up to the verb."""
    is_bucket: bool = False
    """Its URLs name a bucket, in which nobody reads a user, a password or a query."""
    is_hadoops: bool = False
    """Hadoop's own settings, which have a dot, are options, too."""


_STORES = "ray_committer.stores"
STORES: Mapping[str, KnownStore] = {
    "file": KnownStore(
        opened_by=f"{_STORES}.local:LocalStore",
        extra="",
        libraries=(),
        options=_all(UMASK),
        aliases=("", "local"),
        tool="",
    ),
    "hdfs": KnownStore(
        opened_by=f"{_STORES}.hdfs.open:open_hdfs",
        extra="hdfs",
        libraries=("hdfs-native",),
        options={**_WEBHDFS, **_HADOOP},
        is_hadoops=True,
    ),
    "webhdfs": KnownStore(
        opened_by=f"{_STORES}.hdfs.webhdfs:WebHdfsStore",
        extra="hdfs",
        libraries=("pycurl",),
        options={**_WEBHDFS, **_HADOOP, **_all("data_proxy")},
        is_hadoops=True,
    ),
    "gs": KnownStore(
        opened_by=f"{_STORES}.gcs.store:GcsStore",
        extra="gcs",
        libraries=("pycurl", "google-auth"),
        options={**_GCSFS, **_FSSPEC},
        aliases=("gcs",),
        tool="gcloud storage ",
        is_bucket=True,
    ),
    "abfs": KnownStore(
        opened_by=f"{_STORES}.adls.open:open_adls",
        extra="adls",
        libraries=("pycurl", "azure-identity"),
        options={**_ADLFS, **_IDENTITY, **_FSSPEC, **_all(f"endpoint {UMASK}")},
        is_bucket=True,
    ),
    "s3": KnownStore(
        opened_by=f"{_STORES}.s3.store:S3Store",
        extra="s3",
        libraries=("pycurl", "botocore"),
        options={
            **_all("endpoint_url key profile region secret token"),
            **_all("anon conditional_deletes path_style requester_pays", Kind.FLAG),
        },
        aliases=("s3a", "s3n"),
        tool="aws s3 ",
        is_bucket=True,
    ),
}
ALIASES: Mapping[str, str] = {
    alias: scheme for scheme, store in STORES.items() for alias in store.aliases
}
"""The scheme of each alias."""
