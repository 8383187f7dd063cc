"""Signed requests to one bucket of S3's API: each is made once, with a deadline.

What an answer says of the credentials, the region and the clock is an error here; what it says of the
object that was asked for is left to the caller. Source: the reference of Amazon S3.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

from ray_committer.errors import SettingsError, StoreRefusedError, StoreUnavailableError, ThrottledError
from ray_committer.stores.answers import (
    CredentialsRefusedError,
    HttpAnswer,
    StoreUnusableError,
    foreign_answer,
)
from ray_committer.stores.http import MOST_BYTES, HttpClient
from ray_committer.stores.s3 import xml
from ray_committer.stores.s3.connect import Credentials, Place
from ray_committer.stores.s3.sign import UNSIGNED, Keys, query_string, quoted, signed_headers

SIGNED_BYTES = 1 << 16
"""A longer payload is not signed; the store checks its MD5."""

_EMPTY = hashlib.sha256(b"").hexdigest()
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "InvalidToken", "ExpiredTokenException")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", *_EXPIRED)
_SKEWED = ("RequestTimeTooSkewed", "RequestExpired")
_REFUSALS = (301, 302, 303, 307, 308, 400, 401, 403, 404, 409)
_ANY = {"list-type": "2", "max-keys": "1"}
"""The query of a listing whose answer shows what one to HEAD, which has no body, does not."""
_BUSY = ("SlowDown", "RequestLimitExceeded", "TooManyRequests", "Throttling")
_UNANSWERED = ("RequestTimeout", "InternalError", "ServiceUnavailable")
_UNDER_WAY = ("ConditionalRequestConflict", "OperationAborted")


class SignedRequests:
    """The requests to a bucket, made by many threads; objects are given by their decoded names."""

    def __init__(
        self, name: str, place: Place, credentials: Credentials, client: HttpClient, *, pays: bool
    ) -> None:
        self.place = place
        self._name = name
        self._credentials = credentials
        self._client = client
        self._always = {"x-amz-request-payer": "requester"} if pays else {}

    def ask(
        self,
        method: str,
        name: str,
        query: Mapping[str, str] | None = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        shown: str | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Make a signed request; with new credentials once more, if the old ones have expired."""
        path = f"/{name if shown is None else shown}"
        asked = method, name, query or {}, data, headers or {}, path, most_bytes
        keys = self._credentials.keys()
        answer = self._send(keys, *asked)
        failure = self._failure(keys, method, answer, path)
        # Only keys that have ended are renewed: after a wrong signature new ones would be refused, too.
        if failure.code in _EXPIRED and (newer := self._credentials.renewed(keys)) is not None:
            answer = self._send(newer, *asked)
            failure = self._failure(newer, method, answer, path)
        self._raise_if_refused(answer, failure, path)
        return answer

    def _failure(self, keys: Keys | None, method: str, answer: HttpAnswer, shown: str) -> xml.Failure:
        """Read why a request was refused; an answer to HEAD says nothing, so a listing is asked for."""
        if answer.status not in _REFUSALS or (answer.status == 404 and method == "HEAD"):
            return xml.Failure()
        if method == "HEAD":
            answer = self._send(keys, "GET", "", _ANY, None, {}, shown)
        return xml.failure_of(answer)

    def _send(
        self,
        keys: Keys | None,
        method: str,
        name: str,
        query: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
        shown: str,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        place = self.place
        path = f"{place.prefix}/{quoted(name)}"
        arguments = query_string(query)
        payload = _EMPTY if not data else _hash(data)
        sent = signed_headers(
            keys, place.region, method, place.host, path, arguments, {**self._always, **headers}, payload
        )
        base = place.base.removesuffix(place.prefix) if place.prefix else place.base
        url = f"{base}{path}?{arguments}" if arguments else f"{base}{path}"
        answer = self._client.request(
            method, url, path=shown, headers=sent, data=data, most_bytes=most_bytes
        )
        is_told = answer.status < 400 or answer.status == 404
        if is_told and not any(header.startswith("x-amz") for header in answer.headers):
            if method == "HEAD":
                self._send(keys, "GET", "", _ANY, None, {}, shown)
            raise _not_of_s3(answer, shown)  # it must not count as done, or as nothing there
        return answer

    def _raise_if_refused(self, answer: HttpAnswer, failure: xml.Failure, path: str) -> None:
        """Raise for answers that have nothing to do with the object that was asked for."""
        # First the region: in a wrong one, requests fail with errors that look like wrong credentials.
        region = answer.headers.get("x-amz-bucket-region") or failure.region or self.place.region
        is_redirected = 300 <= answer.status < 400 and answer.status != 304
        if answer.status >= 400 and region != self.place.region:  # HEAD has no code
            raise self._wrong_region(region)
        if is_redirected or failure.code == "AuthorizationHeaderMalformed":
            raise self._elsewhere(answer, failure, region)
        if failure.code == "NoSuchBucket":
            raise StoreRefusedError(f"s3://{self._name}: there is no such bucket", "create it")
        if failure.code in _SKEWED:
            raise CredentialsRefusedError(
                errno.EACCES,
                f"the clock of this machine differs from that of the store: {failure.message}; set the "
                f"clock",
                path,
            )
        if failure.code in _REFUSED:
            text = f"{failure.code}: {failure.message}"
            raise CredentialsRefusedError(
                errno.EACCES, f"the store refuses the credentials ({text})", path
            )
        raise_if_passing(answer.status, failure, path)

    def _wrong_region(self, region: str) -> SettingsError:
        """The error for a bucket that is in another region."""
        return SettingsError(
            f"s3://{self._name}: is in region {region}, not in {self.place.region}",
            f"give the storage option region={region}, or set AWS_REGION",
        )

    def _elsewhere(self, answer: HttpAnswer, failure: xml.Failure, region: str) -> SettingsError:
        """The error for a redirection, or a signature for another region, by what the answer names."""
        if region != self.place.region:
            return self._wrong_region(region)
        asked = f"s3://{self._name}: the server at {self.place.host}"
        if not 300 <= answer.status < 400:
            return SettingsError(
                f"{asked} refuses the region {self.place.region} and names no other: {failure.message}",
                "give the region of the bucket as the storage option region, or set AWS_REGION",
            )
        to = failure.endpoint or urlsplit(answer.headers.get("location", "")).netloc.rpartition("@")[2]
        return SettingsError(
            f"{asked} redirects to {to or 'another address'} (HTTP {answer.status}) and names no region",
            "give the bucket's region and address as the storage options region and endpoint_url",
        )


def _not_of_s3(answer: HttpAnswer, path: str) -> OSError:
    """The error for an answer without any header of S3; one of a server of its API is so for ever."""
    if xml.is_of_s3(answer):
        text = (
            "the server sends no x-amz header, by which answers of a store and of a proxy are told apart"
        )
        return StoreUnusableError(errno.EPROTO, f"{text}: use a server that does", path)
    return foreign_answer(answer, path)


def raise_if_passing(status: int, failure: xml.Failure, path: str) -> None:
    """Raise for a refusal after which the same request is made again. 409 says that another request for
    the object is under way, and not that a condition does not hold."""
    if failure.code in _BUSY:
        raise ThrottledError(path)
    # As when there is no answer: what the other request did is not known.
    if status == 409 or failure.code in (*_UNANSWERED, *_UNDER_WAY):
        raise StoreUnavailableError(path, f"the store answered {status} {failure.code}".rstrip())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if len(data) <= SIGNED_BYTES else UNSIGNED
