"""How the clients of Delta's and Iceberg's libraries reach a bucket of S3: as this package does.

They get the keys that botocore has found, which last longer than an export. Sources: the configuration
keys of Rust's crate ``object_store``, and pyiceberg's page "Configuration".
"""

from __future__ import annotations

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.connect import Credentials, Place, find_place
from ray_committer.stores.s3.sign import Keys


def delta_s3_options(spec: StoreSpec) -> dict[str, str]:
    """The options of Delta's library, which then writes a version only if none is there."""
    place, keys = _reach(spec)
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


def iceberg_s3_properties(spec: StoreSpec) -> dict[str, str]:
    """The properties of Iceberg's library."""
    place, keys = _reach(spec)
    scheme = place.base.partition("://")[0]
    host = place.host if place.prefix else place.host.removeprefix(f"{spec.authority}.")
    properties = {
        "s3.endpoint": f"{scheme}://{host}",
        "s3.region": place.region,
        "s3.force-virtual-addressing": "false" if place.prefix else "true",
        "s3.anonymous": "true" if keys is None else "false",
    }
    if keys is not None:
        properties |= {"s3.access-key-id": keys.access, "s3.secret-access-key": keys.secret}
        properties |= {"s3.session-token": keys.token} if keys.token else {}
    return properties


def _reach(spec: StoreSpec) -> tuple[Place, Keys | None]:
    credentials = Credentials(spec.authority, spec.storage_options)
    return find_place(spec.authority, spec.storage_options, credentials), credentials.keys()
