"""Hadoop's settings of S3A as storage options: what is mapped, what wins, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import resolve_destination

AUTH = "com.amazonaws.auth"
OURS = "org.apache.hadoop.fs.s3a"
SDK_2 = "software.amazon.awssdk.auth.credentials"
PAIR = {"access.key": "me", "secret.key": "pssst"}
PAIR_OPTIONS = {"key": "me", "secret": "pssst"}


def s3a(keys: dict[str, str], *, bucket: str = "") -> dict[str, str]:
    prefix = f"fs.s3a.bucket.{bucket}." if bucket else "fs.s3a."
    return {f"{prefix}{key}": value for key, value in keys.items()}


def providers(*names: str) -> dict[str, str]:
    return {"aws.credentials.provider": ", ".join(names)}


TABLE: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (PAIR, PAIR_OPTIONS),
    ({**PAIR, "session.token": "t"}, {**PAIR_OPTIONS, "token": "t"}),
    ({"access.key": "me"}, {}),
    ({**PAIR, **providers(f"{OURS}.SimpleAWSCredentialsProvider"), "session.token": "t"}, PAIR_OPTIONS),
    ({**PAIR, **providers(f"{OURS}.TemporaryAWSCredentialsProvider")}, {}),
    ({**PAIR, **providers(f"{OURS}.AnonymousAWSCredentialsProvider")}, {"anon": True}),
    (
        providers(f"{OURS}.SimpleAWSCredentialsProvider", f"{AUTH}.WebIdentityTokenCredentialsProvider"),
        {},
    ),
    (providers(f"{SDK_2}.WebIdentityTokenFileCredentialsProvider"), {}),
    ({**PAIR, **providers(f"{AUTH}.EnvironmentVariableCredentialsProvider")}, {}),
    (providers(f"{OURS}.auth.IAMInstanceCredentialsProvider", "org.example.Never"), {}),
    ({"endpoint": "s3.amazonaws.com"}, {}),
    ({"endpoint": "s3.eu-west-3.amazonaws.com"}, {"region": "eu-west-3"}),
    ({"endpoint": "https://s3-us-gov-west-1.amazonaws.com"}, {"region": "us-gov-west-1"}),
    ({"endpoint": "s3.cn-north-1.amazonaws.com.cn"}, {"region": "cn-north-1"}),
    (
        {"endpoint": "s3.eu-west-3.amazonaws.com", "endpoint.region": "eu-west-1"},
        {"region": "eu-west-1"},
    ),
    ({"endpoint.region": "sdk"}, {}),
    (
        {"endpoint": "minio:9000", "path.style.access": "true"},
        {"endpoint_url": "https://minio:9000", "path_style": True},
    ),
    (
        {"endpoint": "minio:9000", "connection.ssl.enabled": "false", "path.style.access": "false"},
        {"endpoint_url": "http://minio:9000", "path_style": False},
    ),
    ({"endpoint": "http://minio:9000/"}, {"endpoint_url": "http://minio:9000"}),
    ({"requester.pays.enabled": "true"}, {"requester_pays": True}),
    ({"encryption.algorithm": "SSE-KMS"}, {}),
]


@pytest.mark.parametrize(("keys", "expected"), TABLE)
@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_what_is_set_for_s3a_is_said_in_our_words(scheme: str, keys, expected):
    url = f"{scheme}://bucket/table"
    options = storage_options(url, HadoopConf(s3a(keys)))
    assert options == expected
    assert resolve_destination(url, options)[0] == StoreSpec("s3", "bucket", expected)


def test_the_key_of_the_bucket_wins():
    conf = HadoopConf({**s3a({**PAIR, "endpoint": "a"}), **s3a({"endpoint": "b"}, bucket="bucket")})
    assert storage_options("s3a://bucket/t", conf) == {**PAIR_OPTIONS, "endpoint_url": "https://b"}
    assert storage_options("s3a://other/t", conf) == {**PAIR_OPTIONS, "endpoint_url": "https://a"}


def test_a_given_credential_replaces_all_of_hadoops_and_the_rest_stays():
    conf = HadoopConf(s3a({**PAIR, "session.token": "t", "endpoint": "http://s"}))
    given = {"key": "you", "secret": "hush"}
    assert storage_options("s3a://b/t", conf, given) == {"endpoint_url": "http://s", **given}
    profile = {"profile": "p", "endpoint_url": "http://o"}
    assert storage_options("s3a://b/t", conf, profile) == profile


def test_a_credential_provider_of_hadoop_is_asked():
    held = {"fs.s3a.bucket.b.access.key": "me", "fs.s3a.secret.key": "pssst"}
    conf = HadoopConf({"fs.s3a.access.key": "clear text"}, get_password=held.get)
    assert storage_options("s3a://b/t", conf) == PAIR_OPTIONS


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (providers("org.example.Own"), "aws.credentials.provider names org.example.Own, which Python"),
        (providers(f"{OURS}.auth.AssumedRoleCredentialProvider"), "which Python cannot call"),
        ({"encryption.algorithm": "SSE-C"}, "fs.s3a.encryption.algorithm=SSE-C encrypts"),
        ({"server-side-encryption-algorithm": "SSE-C"}, "server-side-encryption-algorithm=SSE-C"),
        ({"encryption.algorithm": "CSE-KMS"}, "with a key that the commit cannot send"),
    ],
)
def test_what_cannot_be_mapped_names_the_key(keys: dict[str, str], said: str):
    with pytest.raises(SettingsError, match=r"^s3a://bucket: Hadoop's fs\.s3a\.") as caught:
        storage_options("s3a://bucket/table", HadoopConf(s3a(keys)))
    assert said in str(caught.value)
    assert "pssst" not in str(caught.value)
