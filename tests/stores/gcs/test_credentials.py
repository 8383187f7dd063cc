"""Signed headers of requests to Google Cloud Storage, by credentials that a test controls."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import google.auth.credentials
import google.auth.exceptions
import google.oauth2.credentials
import google.oauth2.service_account
import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.stores.answers import StoreUnusableError
from ray_committer.stores.gcs.credentials import FRESH_SECONDS, GcsCredentials


class Tokens(google.auth.credentials.Credentials):
    """Gives ``token-1``, ``token-2``..., each for `minutes`; fails with `error`."""

    def __init__(self, minutes: float = 60.0) -> None:
        super().__init__()
        self.minutes = minutes
        self.given = 0
        self.error: Exception | None = None

    def refresh(self, request: object) -> None:
        if self.error is not None:
            raise self.error
        self.given += 1
        self.token = f"token-{self.given}"
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        self.expiry = now + datetime.timedelta(minutes=self.minutes)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(tokens: Tokens, clock: Clock) -> GcsCredentials:
    return GcsCredentials("bucket", {"token": tokens, "project": "p"}, clock=clock)


def test_a_token_is_used_while_it_is_fresh():
    tokens, clock = Tokens(), Clock()
    credentials = opened(tokens, clock)
    first = credentials.headers("/a")
    assert first["authorization"] == "Bearer token-1"
    assert credentials.headers("/a") is first
    clock.now = FRESH_SECONDS + 1
    assert credentials.headers("/a")["authorization"] == "Bearer token-1"
    assert tokens.given == 1


def test_a_token_that_ends_soon_is_renewed_before():
    tokens, clock = Tokens(minutes=4), Clock()
    credentials = opened(tokens, clock)
    credentials.headers("/a")
    clock.now = FRESH_SECONDS - 1
    assert credentials.headers("/a")["authorization"] == "Bearer token-1"
    clock.now = FRESH_SECONDS + 1
    assert credentials.headers("/a")["authorization"] == "Bearer token-2"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (google.auth.exceptions.TransportError("no route"), StoreUnavailableError),
        (google.auth.exceptions.RefreshError("invalid_grant"), PermissionError),
    ],
)
def test_a_token_that_is_not_given_fails_the_request_and_is_asked_for_again(
    error: Exception, kind: type[OSError]
):
    tokens, clock = Tokens(), Clock()
    credentials = opened(tokens, clock)
    tokens.error = error
    with pytest.raises(kind) as caught:
        credentials.headers("/a/b")
    assert caught.value.filename == "/a/b"
    tokens.error = None
    assert credentials.headers("/a/b")["authorization"] == "Bearer token-1"


def test_no_access_is_signed_for_without_credentials():
    headers = GcsCredentials("bucket", {"token": "anon"}).headers("/a")
    assert "authorization" not in {name.lower() for name in headers}


def test_the_address_is_that_of_google_or_what_the_options_say(monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    anonymous = {"token": "anon"}
    assert GcsCredentials("b", anonymous).base.startswith("https://storage.")
    given = {**anonymous, "endpoint_url": "http://127.0.0.1:1"}
    assert GcsCredentials("b", given).base == "http://127.0.0.1:1"


def pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*kinds, serialization.NoEncryption()).decode()


def mapped(**keys: str) -> dict[str, object]:
    """The storage options of Hadoop's ``fs.gs.auth.*``."""
    settings = {f"fs.gs.auth.{key.replace('_', '.')}": value for key, value in keys.items()}
    return storage_options("gs://bucket/t", HadoopConf(settings))


def test_what_hadoop_names_is_what_gcsfs_takes(tmp_path: Path):
    """A key in the settings, with Hadoop's written line ends, the same key in a file, and a user."""
    key = {
        "service_account_email": "a@b",
        "service_account_private_key_id": "7",
        "service_account_private_key": pem().replace("\n", "\\n"),
    }
    options = mapped(**key)
    (tmp_path / "key.json").write_text(json.dumps(options["token"]))
    in_file = mapped(service_account_json_keyfile=str(tmp_path / "key.json"))
    user = mapped(type="USER_CREDENTIALS", client_id="i", client_secret="s", refresh_token="r")
    service = google.oauth2.service_account.Credentials
    for given, kind in (
        (options, service),
        (in_file, service),
        (user, google.oauth2.credentials.Credentials),
    ):
        assert isinstance(GcsCredentials("bucket", given)._credentials.credentials, kind)


def test_a_key_file_that_is_not_there_is_not_sent_as_a_token(tmp_path: Path):
    options = mapped(service_account_json_keyfile=str(tmp_path / "key.json"))
    with pytest.raises(StoreRefusedError, match=r"the key file '/.*key\.json' is not on"):
        GcsCredentials("bucket", options)


def test_a_broken_key_is_refused_and_not_shown():
    key = {"service_account_email": "a@b", "service_account_private_key_id": "7"}
    with pytest.raises(StoreRefusedError) as caught:
        GcsCredentials("bucket", mapped(**key, service_account_private_key="pssst"))
    assert "pssst" not in str(caught.value) + repr(caught.value.__cause__)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "its certificate is not trusted"),
        ("Tunnel connection failed: 407 Proxy Authentication Required", "wants a user and a password"),
    ],
)
def test_a_server_of_tokens_that_is_never_reached_fails_at_once(text: str, why: str):
    """As requests, google-auth and urllib3 wrap each other's errors."""
    tokens = Tokens()
    tokens.minutes = 0.1
    credentials = opened(tokens, Clock())
    tokens.error = google.auth.exceptions.TransportError(requests.exceptions.ConnectionError(text))
    with pytest.raises(StoreUnusableError, match=why) as caught:
        credentials.headers("/a")
    assert caught.value.filename == "/a"
