"""Translate the settings of Hadoop's S3A connector to this package's storage options for S3.

Each key exists for one bucket also, as ``fs.s3a.bucket.NAME.key``, which takes precedence. A provider of
credentials that Python has, too, is left to botocore: the environment, profiles, web identities,
containers, instances. Source: Hadoop's pages "Hadoop-AWS module" and "Connecting to an S3 store".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop.conf import HadoopConf, refusal

CREDENTIALS = ("anon", "key", "profile", "secret", "token")
"""If one of these options is given, Hadoop's settings for credentials are not used."""

_PROVIDER = "aws.credentials.provider"
_ALGORITHMS = ("encryption.algorithm", "server-side-encryption-algorithm")
_AMAZON = re.compile(r"s3[.-](?:(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.)?amazonaws\.com(?:\.cn)?")
_TEMPORARY = "TemporaryAWSCredentialsProvider"
_OF_KEYS = (_TEMPORARY, "SimpleAWSCredentialsProvider")
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_FOUND_BY_BOTOCORE = (
    "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ProfileAWSCredentialsProvider",
    "ProfileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
)


def s3a_options(bucket: str, conf: HadoopConf, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options for a bucket. If no key has a credential, botocore finds its own."""
    _refuse_encryption(bucket, conf)
    has_own = any(name in given for name in CREDENTIALS)
    options = {} if has_own else _credentials(bucket, conf)
    options |= _place(bucket, conf)
    if (style := conf.get(*_keys(bucket, "path.style.access"))) is not None:
        options["path_style"] = style.lower() == "true"
    if conf.is_true(*_keys(bucket, "requester.pays.enabled")):
        options["requester_pays"] = True
    return options


def _keys(bucket: str, name: str) -> tuple[str, str]:
    """The key of the bucket, then the key of all buckets."""
    return f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"


def _place(bucket: str, conf: HadoopConf) -> dict[str, Any]:
    """The region, and the address of a server that is not Amazon's."""
    endpoint = (conf.get(*_keys(bucket, "endpoint")) or "").rstrip("/")
    region = conf.get(*_keys(bucket, "endpoint.region"))
    # "sdk" means that Amazon's SDK finds the region; here botocore does.
    region = None if region == "sdk" else region
    amazon = _AMAZON.fullmatch(endpoint.partition("://")[2] or endpoint)
    if amazon is not None:
        # Amazon's own address says no more than the region, and botocore knows newer forms of it.
        region, endpoint = region or amazon["region"], ""
    if endpoint and "://" not in endpoint:
        secure = conf.is_true(*_keys(bucket, "connection.ssl.enabled"), default=True)
        endpoint = f"http{'s' if secure else ''}://{endpoint}"
    place = {"endpoint_url": endpoint, "region": region}
    return {name: value for name, value in place.items() if value}


def _credentials(bucket: str, conf: HadoopConf) -> dict[str, Any]:
    """The credentials of the first provider that has some, as S3A asks them."""
    listed = conf.get(*_keys(bucket, _PROVIDER)) or ",".join(_OF_KEYS)
    for provider in filter(None, map(str.strip, re.split(r"[,\s]+", listed))):
        name = provider.rpartition(".")[2]
        if name == _ANONYMOUS:
            return {"anon": True}
        if name in _OF_KEYS and (pair := _pair(bucket, conf, needs_token=name == _TEMPORARY)):
            return pair
        # Here botocore finds the same; providers after this one are asked only if it finds none.
        if name in _FOUND_BY_BOTOCORE:
            return {}
        if name not in _OF_KEYS:
            what = f"names {provider}, which Python cannot call"
            raise refusal(f"s3a://{bucket}", f"fs.s3a.{_PROVIDER}", what, "key")
    return {}


def _pair(bucket: str, conf: HadoopConf, *, needs_token: bool) -> dict[str, Any]:
    """The access key, its secret, and perhaps a session's token; nothing if one of them is not set."""
    names = {"key": "access.key", "secret": "secret.key", "token": "session.token"}
    values = {option: conf.secret(*_keys(bucket, name)) for option, name in names.items()}
    needed = names if needs_token else ("key", "secret")
    if not all(values[option] for option in needed):
        return {}
    return {option: values[option] for option in needed}


def _refuse_encryption(bucket: str, conf: HadoopConf) -> None:
    """`SettingsError` if tasks encrypt with a key of their own: the commit cannot look at such files."""
    for name in _ALGORITHMS:
        value = (conf.get(*_keys(bucket, name)) or "").upper()
        if value == "SSE-C" or value.startswith("CSE-"):
            raise SettingsError(
                f"s3a://{bucket}: Hadoop's fs.s3a.{name}={value} encrypts the tasks' files with a key "
                f"that the commit cannot send",
                "encrypt with SSE-S3 or SSE-KMS, best by the bucket's default",
            )
