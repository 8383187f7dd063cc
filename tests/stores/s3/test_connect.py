"""Where a bucket is, and whose credentials sign the requests to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme

from ray_committer.errors import SettingsError, StoreRefusedError
from ray_committer.stores.answers import CredentialsRefusedError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.output import open_input
from ray_committer.stores.s3.connect import Credentials, Place, find_place, trusted_certificates
from ray_committer.stores.s3.sign import Keys
from ray_committer.stores.s3.store import S3Store
from tests.servers.fake_s3 import FakeS3, FakeS3Server

VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No credentials but those of the test."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def place(bucket: str = "bucket", **options: Any) -> Place:
    return find_place(bucket, options, Credentials(bucket, options))


@pytest.mark.parametrize(
    ("bucket", "options", "base", "host"),
    [
        ("b", {}, "https://b.s3.us-east-1.amazonaws.com", "b.s3.us-east-1.amazonaws.com"),
        ("b", {"region": "eu-west-3"}, "https://b.s3.eu-west-3.amazonaws.com",
         "b.s3.eu-west-3.amazonaws.com"),
        ("b", {"region": "cn-north-1"}, "https://b.s3.cn-north-1.amazonaws.com.cn",
         "b.s3.cn-north-1.amazonaws.com.cn"),
        ("a.b", {}, "https://s3.us-east-1.amazonaws.com/a.b", "s3.us-east-1.amazonaws.com"),
        ("b", {"endpoint_url": "http://host:9000"}, "http://host:9000/b", "host:9000"),
        ("b", {"endpoint_url": "https://host:443/"}, "https://host/b", "host"),
        ("b", {"endpoint_url": "http://host:9000", "path_style": "false"}, "http://b.host:9000",
         "b.host:9000"),
        ("b", {"path_style": True}, "https://s3.us-east-1.amazonaws.com/b",
         "s3.us-east-1.amazonaws.com"),
    ],
)  # fmt: skip
def test_the_address_of_a_bucket(bucket: str, options: dict[str, Any], base: str, host: str):
    found = place(bucket, **options)
    assert (found.base, found.host) == (base, host)


def test_region_and_endpoint_come_from_the_environment_and_the_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / "config").write_text("[profile a]\nregion = eu-north-1\nendpoint_url = https://of.profile\n")
    assert place(profile="a") == Place(
        "https://of.profile/bucket", "of.profile", "/bucket", "eu-north-1"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://of.environment")
    assert place(profile="a").host == "of.environment"
    assert place(profile="a", endpoint_url="https://given").host == "given"


@pytest.mark.parametrize("endpoint", ["host:9000", "ftp://host", "https://host/path", "https://"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str):
    with pytest.raises(SettingsError, match="is not an address of a server"):
        place(endpoint_url=endpoint)


def test_credentials_come_from_options_environment_or_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / "credentials").write_text("[p]\naws_access_key_id = of-p\naws_secret_access_key = s\n")
    assert Credentials("b", {"profile": "p"}).keys() == Keys("of-p", "s")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    assert Credentials("b", {}).keys() == Keys("of-environment", "s", "t")
    assert Credentials("b", {"key": "k", "secret": "s"}).keys() == Keys("k", "s")
    assert Credentials("b", {"anon": True}).keys() is None


def test_without_credentials_the_error_says_what_to_set():
    with pytest.raises(CredentialsRefusedError, match="no credentials are found: set AWS_ACCESS_KEY_ID"):
        Credentials("b", {}).keys()


def test_a_profile_that_does_not_exist_is_refused():
    with pytest.raises(StoreRefusedError, match=r"missing.*name a profile that is on all nodes"):
        Credentials("b", {"profile": "missing"})


def test_half_a_key_is_refused():
    with pytest.raises(SettingsError, match="key and secret belong together"):
        Credentials("b", {"key": "k"})


def test_new_credentials_are_read_after_the_old_ones_were_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "old")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    credentials = Credentials("b", {})
    old = credentials.keys()
    assert credentials.renewed(old) is None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "new")
    assert credentials.renewed(old) == Keys("new", "s")
    assert Credentials("b", {"key": "k", "secret": "s"}).renewed(Keys("k", "s")) is None


def test_certificates_come_from_the_environment_and_the_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    (home / "config").write_text("[profile a]\nca_bundle = /of/profile\n")
    assert trusted_certificates(Credentials("b", {"key": "k", "secret": "s"})) is None
    assert trusted_certificates(Credentials("b", {"profile": "a"})) == "/of/profile"
    monkeypatch.setenv("AWS_CA_BUNDLE", "/of/environment")
    assert trusted_certificates(Credentials("b", {"profile": "a"})) == "/of/environment"


@pytest.mark.parametrize("where", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "profile"])
def test_data_is_read_and_written_by_these_certificates(
    home: Path, monkeypatch: pytest.MonkeyPatch, where: str
):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(home / "ca.pem")
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if where == "profile":
        (home / "credentials").write_text("[a]\naws_access_key_id = k\naws_secret_access_key = s\n")
        (home / "config").write_text(f"[profile a]\nca_bundle = {home}/ca.pem\n")
    else:
        monkeypatch.setenv(where, str(home / "ca.pem"))
    server = FakeS3Server(FakeS3(buckets={"bucket": {}}), tls=authority).start()
    options = {**server.storage_options}
    if where == "profile":
        options = {"endpoint_url": server.url, "region": "us-east-1", "profile": "a"}
    try:
        spec = StoreSpec("s3", "bucket", options)
        store = S3Store(spec)
        store.write("/a", b"content")
        assert store.read("/a") == b"content"
        with open_input(spec, "/a") as file:
            assert file.read() == b"content"
    finally:
        server.stop()
