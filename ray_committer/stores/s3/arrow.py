"""pyarrow's file system for a bucket, through which readers read data files.

It has an S3 client of its own, without Python. Without a key or a profile in the storage options, that
client finds the credentials, and renews them in long reads.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.http import BUNDLE
from ray_committer.stores.options import is_true
from ray_committer.stores.s3.connect import Credentials, find_place, trusted_certificates


def arrow_file_system(spec: StoreSpec) -> Any:
    """`new_arrow_file_system`, but the same for the same bucket and options, unless its keys can end."""
    return new_arrow_file_system(spec) if spec.storage_options.get("profile") else _shared(spec)


def new_arrow_file_system(spec: StoreSpec) -> Any:
    """Return a `pyarrow.fs.S3FileSystem` for a bucket; its paths begin with the name of the bucket.
    ``ImportError`` without pyarrow. `StoreRefusedError` if readers pay: that client cannot."""
    from pyarrow.fs import S3FileSystem

    options = spec.storage_options
    if is_true("requester_pays", options.get("requester_pays", False)):
        raise StoreRefusedError(
            f"s3://{spec.authority}: pyarrow cannot read a bucket whose readers pay",
            "read the files with another program: the snapshot's urls() name them",
        )
    credentials = Credentials(spec.authority, options)
    place = find_place(spec.authority, options, credentials)
    is_named = bool(options.get("key") or options.get("profile"))
    keys = credentials.keys() if is_named else None
    arguments: dict[str, Any] = {
        "access_key": keys.access if keys else None,
        "secret_key": keys.secret if keys else None,
        "session_token": keys.token if keys else None,
        "anonymous": credentials.is_anonymous,
        "region": place.region,
        "scheme": place.base.partition(":")[0],
        "endpoint_override": (
            place.host if place.prefix else place.host.removeprefix(f"{spec.authority}.")
        ),
        "force_virtual_addressing": not place.prefix,
    }
    trusted = trusted_certificates(credentials) or os.environ.get(BUNDLE)
    if trusted and os.path.isfile(trusted):
        with suppress(TypeError):  # an older pyarrow has only the certificates of the system
            return S3FileSystem(**arguments, tls_ca_file_path=trusted)
    return S3FileSystem(**arguments)


_shared = lru_cache(maxsize=16)(new_arrow_file_system)
