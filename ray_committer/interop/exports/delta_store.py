"""How Delta's library reaches the store of a table: its URL there, and the options of its client.

The library has clients of its own. Credentials that are in the environment, it reads itself; for S3 it
gets the keys that botocore has found, which last longer than an export. Source: the configuration keys
of Rust's crate ``object_store``.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from ray_committer.errors import ExportError, mark
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import shown_url
from ray_committer.stores.s3.connect import Credentials, find_place

_KEYS: Mapping[str, Mapping[str, str]] = {
    "file": {},
    "s3": {},
    "gs": {"token": "google_service_account"},
    "abfs": {
        "account_name": "azure_storage_account_name",
        "account_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_token",
        "tenant_id": "azure_storage_tenant_id",
        "client_id": "azure_storage_client_id",
        "client_secret": "azure_storage_client_secret",
    },
}
"""The names of storage options there, for each scheme whose stores the library can write to."""
_SCHEMES = {"abfs": "abfss"}


def delta_url(spec: StoreSpec, path: str) -> str:
    """The URL of a directory; `ExportError` if the library cannot write there."""
    shown = shown_url(spec, path)
    if spec.scheme not in _KEYS:
        raise ExportError(
            f"{mark(shown)}: Delta's library cannot write to {spec.scheme}://",
            "the table itself is as it was: read its snapshots",
        )
    if "%" in path:
        raise ExportError(
            f"{mark(shown)}: Delta's library cannot use a directory with a percent sign in its name",
            "the table itself is as it was: export a table in another directory",
        )
    return f"{_SCHEMES.get(spec.scheme, spec.scheme)}://{spec.authority}{quote(path)}"


def delta_options(spec: StoreSpec) -> dict[str, str]:
    """The storage options as the library names them; those that it does not have are left out."""
    if spec.scheme == "s3":
        return _s3_options(spec)
    keys = _KEYS[spec.scheme]
    return {
        keys[name]: str(value)
        for name, value in spec.storage_options.items()
        if name in keys and value is not None
    }


def _s3_options(spec: StoreSpec) -> dict[str, str]:
    """The place and the keys that this package has found, and writes only where no version is."""
    credentials = Credentials(spec.authority, spec.storage_options)
    place = find_place(spec.authority, spec.storage_options, credentials)
    # Fixed keys and not a provider: the library has no way to ask Python for new ones.
    keys = credentials.keys()
    options = {
        "aws_endpoint": place.base.removesuffix(place.prefix),
        "aws_virtual_hosted_style_request": "false" if place.prefix else "true",
        "aws_allow_http": "true" if place.base.startswith("http:") else "false",
        "aws_region": place.region,
        "aws_conditional_put": "etag",
        "aws_skip_signature": "true" if keys is None else "false",
    }
    if keys is not None:
        options |= {"aws_access_key_id": keys.access, "aws_secret_access_key": keys.secret}
        options |= {"aws_session_token": keys.token} if keys.token else {}
    return options
