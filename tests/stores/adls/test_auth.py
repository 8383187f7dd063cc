"""Signatures, tokens, and which error an answer stands for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.adls.auth import REFRESH_SECONDS, Bearer, string_to_sign
from ray_committer.stores.adls.http import bare_etag, error_of, quoted_etag
from ray_committer.stores.answers import StoreUnusableError


def test_the_text_that_is_signed_is_the_documented_one():
    headers = {
        "x-ms-version": "2023-11-03",
        "x-ms-date": "Fri, 26 Jun 2015 23:39:12 GMT",
        "x-ms-rename-source": "/lake/a%20b",
        "If-None-Match": "*",
        "Content-Length": "0",
        "Content-Type": "text/plain",
    }
    url = "https://acct.dfs.core.windows.net/lake/c%253A%20d?mode=legacy&Continuation=a%2Bb%2F%3D"
    assert string_to_sign("acct", "PUT", url, headers) == (
        "PUT\n\n\n\n\ntext/plain\n\n\n\n*\n\n\n"
        "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
        "x-ms-rename-source:/lake/a%20b\n"
        "x-ms-version:2023-11-03\n"
        "/acct/lake/c%253A%20d\ncontinuation:a+b/=\nmode:legacy"
    )


def test_a_length_is_signed_unless_it_is_zero():
    assert string_to_sign("a", "PUT", "https://h/x", {"Content-Length": "12"}).startswith(
        "PUT\n\n\n12\n"
    )


class Token(NamedTuple):
    token: str
    expires_on: float


class Issuer:
    """Gives tokens that are valid for an hour of a clock that tests move; fails on demand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.given = 0
        self.failure: Exception | None = None
        self._lock = threading.Lock()

    def get(self, *_: Any) -> Token:
        if self.failure is not None:
            raise self.failure
        with self._lock:
            self.given += 1
            return Token(f"token-{self.given}", self.now + 3600)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def bearer(issuer: Issuer) -> Bearer:
    return Bearer(issuer.get, clock=lambda: issuer.now)


def test_a_token_is_kept_until_shortly_before_it_expires(issuer: Issuer, bearer: Bearer):
    assert bearer.headers("GET", "https://h/", {})["Authorization"] == "Bearer token-1"
    issuer.now += 3600 - REFRESH_SECONDS - 1
    assert bearer.token() == "token-1"
    issuer.now += 2
    assert bearer.token() == "token-2"


def test_many_threads_ask_for_one_token(issuer: Issuer, bearer: Bearer):
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: bearer.token(), range(200))) == {"token-1"}
    assert issuer.given == 1


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ClientAuthenticationError("who are you"), PermissionError),
        (ServiceRequestError("no route"), StoreUnavailableError),
        (ServiceRequestError("[SSL: CERTIFICATE_VERIFY_FAILED] no"), StoreUnusableError),
    ],
)
def test_the_old_token_is_used_while_it_lasts_if_there_is_no_new_one(
    issuer: Issuer, bearer: Bearer, failure: Exception, error: type[OSError]
):
    bearer.token()
    issuer.failure = failure
    issuer.now += 3600 - 1
    assert bearer.token() == "token-1"
    issuer.now += 2
    with pytest.raises(error):
        bearer.token()


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, "PathNotFound", FileNotFoundError),
        (404, "SourcePathNotFound", FileNotFoundError),
        (404, "RenameDestinationParentPathNotFound", FileNotFoundError),
        (404, "", FileNotFoundError),
        (409, "PathAlreadyExists", FileExistsError),
        (409, "PathConflict", FileExistsError),
        (412, "SourceConditionNotMet", FileExistsError),
        (412, "ConditionNotMet", FileExistsError),
        (403, "AuthorizationPermissionMismatch", PermissionError),
        (409, "DestinationPathIsBeingDeleted", OSError),
        (412, "LeaseIdMissing", OSError),
        (400, "InvalidInput", OSError),
        (307, "", OSError),
    ],
)
def test_an_answer_becomes_the_error_it_stands_for(status: int, code: str, error: type[OSError]):
    found = error_of(status, code, "/a", "/b")
    assert type(found) is error
    assert (found.filename, found.filename2) == ("/a", "/b")
    assert f"{status} {code}".strip() in str(found)


@pytest.mark.parametrize("etag", ['"0x1"', "0x1", 'W/"0x1"'])
def test_an_etag_is_one_value_in_a_header_a_listing_and_a_manifest(etag: str):
    assert bare_etag(etag) == "0x1"
    assert quoted_etag(etag) == '"0x1"'
    assert bare_etag(None) is None
