"""Signed headers of requests to Google Cloud Storage, by credentials that a test controls."""

from __future__ import annotations

import datetime

import google.auth.credentials
import google.auth.exceptions
import pytest

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.gcs_credentials import FRESH_SECONDS, GcsCredentials


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
