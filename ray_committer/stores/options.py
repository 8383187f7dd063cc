"""The storage options that each store knows: any other one is refused by its name, and never ignored.

The names are gcsfs's and adlfs's, as far as they make sense for a commit or for the files of
Python's tasks. They are listed here because a session that writes to several stores needs them without
these packages.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.stores.base import StoreSpec
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

OPTIONS: Mapping[str, Mapping[str, Kind]] = {
    "file": _all(UMASK),
    "hdfs": {**_WEBHDFS, **_HADOOP},
    "webhdfs": {**_WEBHDFS, **_HADOOP, **_all("data_proxy")},
    "gs": {**_GCSFS, **_FSSPEC},
    "abfs": {**_ADLFS, **_IDENTITY, **_FSSPEC, **_all("endpoint")},
    "s3": {
        **_all("endpoint_url key profile region secret token"),
        **_all("anon conditional_deletes path_style requester_pays", Kind.FLAG),
    },
}
"""The options of each store of this package. HDFS also knows Hadoop's own, which have a dot."""

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def with_flags(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose flags are true or false and no texts: to a client of Python, the text
    ``"false"`` is true. `SettingsError` for a flag with another value."""
    kinds = OPTIONS.get(scheme, {})
    converted = dict(options)
    for name, value in options.items():
        kind = kinds.get(name)
        if (kind is Kind.FLAG and value is not None) or (kind is Kind.FLAG_OR_TEXT and _is_flag(value)):
            converted[name] = is_true(name, value)
    return converted


def is_true(name: str, value: object) -> bool:
    """Return a storage option that is true or false; `SettingsError` for another value."""
    if not _is_flag(value):
        raise SettingsError(f"the storage option {name}: {value!r} is neither true nor false")
    return str(value).strip().lower() in _TRUE


def _is_flag(value: object) -> bool:
    return str(value).strip().lower() in (*_TRUE, *_FALSE)


def refuse_unknown(spec: StoreSpec, shown: str) -> None:
    """`SettingsError` names the first storage option that the store does not know; `shown` is its URL.

    A store of another package knows its own options.
    """
    for name in spec.storage_options:
        if not is_known(spec.scheme, name):
            known = OPTIONS[spec.scheme]
            near = difflib.get_close_matches(name, known, n=1)
            listed = f"the storage options here are {', '.join(sorted(known))}"
            raise SettingsError(
                f"{shown}: {name!r} is not a storage option",
                f"did you mean {near[0]}? {listed}" if near else listed,
            )


def options_of(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for several stores without those that only another store of this package knows."""
    return {
        name: value
        for name, value in options.items()
        if is_known(scheme, name) or not any(is_known(known_scheme, name) for known_scheme in OPTIONS)
    }


def is_known(scheme: str, name: str) -> bool:
    """Return whether a store knows an option, as far as that can be told here."""
    known = OPTIONS.get(scheme)
    return known is None or name in known or (scheme in ("hdfs", "webhdfs") and "." in name)
