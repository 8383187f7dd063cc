"""Signed requests to one bucket of S3's API: each is made once, with a deadline.

What an answer says of the credentials, the region and the clock is an error here; what it says of the
object that was asked for is left to the caller. Source: the reference of Amazon S3.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping

from ray_committer.errors import (
    SettingsError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.stores.answers import CredentialsRefusedError, HttpAnswer, foreign_answer
from ray_committer.stores.http import HttpClient
from ray_committer.stores.s3 import xml
from ray_committer.stores.s3.connect import Credentials, Place
from ray_committer.stores.s3.sign import UNSIGNED, Keys, query_string, quoted, signed_headers

SIGNED_BYTES = 1 << 16
"""A longer payload is not signed; the store checks its MD5."""

_EMPTY = hashlib.sha256(b"").hexdigest()
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "InvalidToken", "ExpiredTokenException")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", *_EXPIRED)
_SKEWED = ("RequestTimeTooSkewed", "RequestExpired")
_REFUSALS = (400, 401, 403, 404, 409)
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
    ) -> HttpAnswer:
        """Make a signed request; with new credentials once more, if the old ones have expired."""
        path = f"/{name if shown is None else shown}"
        keys = self._credentials.keys()
        answer = self._send(keys, method, name, query or {}, data, headers or {}, path)
        failure = self._failure(keys, method, answer, path)
        if failure.code in _EXPIRED and (newer := self._credentials.renewed(keys)) is not None:
            answer = self._send(newer, method, name, query or {}, data, headers or {}, path)
            failure = self._failure(newer, method, answer, path)
        self._raise_if_refused(answer, failure, path)
        return answer

    def _failure(self, keys: Keys | None, method: str, answer: HttpAnswer, shown: str) -> xml.Failure:
        """Read why a request was refused; an answer to HEAD says nothing, so a listing is asked for."""
        if answer.status not in _REFUSALS or (answer.status == 404 and method == "HEAD"):
            return xml.Failure()
        if method == "HEAD":
            query = {"list-type": "2", "max-keys": "1"}
            answer = self._send(keys, "GET", "", query, None, {}, shown)
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
        answer = self._client.request(method, url, path=shown, headers=sent, data=data)
        is_told = answer.status < 400 or answer.status == 404
        if is_told and not any(one.startswith("x-amz") for one in answer.headers):
            raise foreign_answer(answer, shown)  # it must not count as done, or as nothing there
        return answer

    def _raise_if_refused(self, answer: HttpAnswer, failure: xml.Failure, path: str) -> None:
        """Raise for answers that have nothing to do with the object that was asked for."""
        region = answer.headers.get("x-amz-bucket-region", self.place.region)
        is_elsewhere = answer.status >= 400 and region != self.place.region  # HEAD has no code
        if is_elsewhere or answer.status in (301, 307) or failure.code == "AuthorizationHeaderMalformed":
            raise self._wrong_region(answer, failure)
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
            said = f"{failure.code}: {failure.message}"
            raise CredentialsRefusedError(
                errno.EACCES, f"the store refuses the credentials ({said})", path
            )
        raise_if_passing(answer.status, failure, path)

    def _wrong_region(self, answer: HttpAnswer, failure: xml.Failure) -> SettingsError:
        """The error for a bucket that is in another region."""
        region = answer.headers.get("x-amz-bucket-region") or failure.region or "another one"
        return SettingsError(
            f"s3://{self._name}: is in region {region}, not in {self.place.region}",
            f"give the storage option region={region}, or set AWS_REGION",
        )


def raise_if_passing(status: int, failure: xml.Failure, path: str) -> None:
    """Raise for a refusal after which the same request is made again.

    409 says that another request for the object is under way, and not that a condition does not hold.
    """
    if failure.code in _BUSY:
        raise ThrottledError(path)
    if status == 409 or failure.code in (*_UNANSWERED, *_UNDER_WAY):
        raise StoreUnavailableError(path, f"the store answered {status} {failure.code}".rstrip())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if len(data) <= SIGNED_BYTES else UNSIGNED
