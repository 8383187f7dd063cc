"""One signed request to Azure Data Lake Storage, with its failures as Python's own errors.

Source: the service's REST reference ("Path", "Filesystem", error codes) and Hadoop's ABFS client.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from urllib.parse import quote, urlencode

from ray_committer.stores.adls.connect import Connection
from ray_committer.stores.answers import CredentialsRefusedError, HttpAnswer, foreign_answer
from ray_committer.stores.http import MOST_BYTES, HttpClient

VERSION = "2023-11-03"
APPEND_BYTES = 32 << 20
PAGE_PATHS = 5000

_REQUEST_ID = "x-ms-request-id"
"""The header of every answer of the service."""
_PLAIN = re.compile(r"[A-Za-z0-9_.~/=-]*")
_BY_STATUS = {403: errno.EACCES, 404: errno.ENOENT}
_BY_CODE = {
    (409, "DirectoryNotEmpty"): errno.ENOTEMPTY,
    (409, "PathAlreadyExists"): errno.EEXIST,
    (409, "PathConflict"): errno.EEXIST,
    (409, "ResourceTypeMismatch"): errno.EEXIST,
    (412, "SourceConditionNotMet"): errno.EEXIST,
    (412, "ConditionNotMet"): errno.EEXIST,
    (412, "TargetConditionNotMet"): errno.EEXIST,
}


class AdlsHttp:
    """Requests to the paths of one container; used by many threads."""

    def __init__(self, connection: Connection, container: str, client: HttpClient | None = None) -> None:
        self.connection = connection
        self.container = container
        self._client = client or HttpClient()
        self._sas = connection.authorization.query

    def source(self, path: str) -> str:
        """Return the ``x-ms-rename-source`` header of `path`, which is authorized separately."""
        name = f"/{self.container}{quote_name(path)}"
        return f"{name}?{self._sas}" if self._sas else name

    def path(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        *,
        shown: str | None = None,
        of_account: bool = False,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Make a request to the decoded `path`; "" is the container itself. Errors name `shown`, because
        the URL may contain a SAS. If its token is refused, it is made once again with a new one.
        `CredentialsRefusedError` if the service does not accept the credentials at all."""
        container = f"{self.connection.dfs}/{self.container}"
        url = f"{self.connection.blob}/" if of_account else f"{container}{quote_name(path)}"
        path = shown or path or "/"
        if query:
            url = f"{url}?{urlencode(query, quote_via=quote, safe='')}"
        # Apart from the URL that is signed, which must not contain it.
        sas = f"{'&' if query else '?'}{self._sas}" if self._sas else ""
        authorization = self.connection.authorization

        def send() -> tuple[HttpAnswer, dict[str, str]]:
            sent = {"x-ms-version": VERSION, "x-ms-date": _date(int(time.time())), **(headers or {})}
            if data is not None:
                sent["Content-Length"] = str(len(data))
                sent["Content-Type"] = "application/octet-stream"
            sent = authorization.headers(method, url, sent)
            answer = self._client.request(
                method, url + sas, path=path, headers=sent, data=data, most_bytes=most_bytes
            )
            return answer, sent

        answer, sent = send()
        if answer.status == 401 and authorization.renew(sent):
            answer, _ = send()
        if (answer.status < 400 or answer.status == 404) and _REQUEST_ID not in answer.headers:
            raise foreign_answer(answer, path)  # it must not count as done, or as nothing there
        if answer.status == 401 or error_code(answer) == "AuthenticationFailed":
            raise self._refused(answer, path)
        return answer

    def _refused(self, answer: HttpAnswer, path: str) -> CredentialsRefusedError:
        refusal = f"{answer.status} {error_code(answer)}".rstrip()
        account, shown = self.connection.account, self.connection.authorization.shown
        text = f"the account {account} refuses {shown} ({refusal})"
        return CredentialsRefusedError(errno.EACCES, text, path)


def quote_name(path: str) -> str:
    """Quote `path`; calls ``urllib.parse.quote``, which is slow, only where it is needed."""
    # "=" as in `p=1` is the only special character of most paths.
    return path.replace("=", "%3D") if _PLAIN.fullmatch(path) else quote(path)


@lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def error_code(answer: HttpAnswer) -> str:
    """Return the service's error code, empty if it gives none."""
    return answer.headers.get("x-ms-error-code", "")


def error_of(status: int, code: str, path: str, second_path: str | None = None) -> OSError:
    """Make the error for an answer; `OSError` chooses its subclass by the number."""
    number = _BY_STATUS.get(status) or _BY_CODE.get((status, code), errno.EIO)
    return OSError(number, f"the store answered {status} {code}".rstrip(), path, None, second_path)


def bare_etag(etag: str | None) -> str | None:
    """Return an etag without quotes, as in listings and manifests."""
    return etag.removeprefix("W/").strip('"') if etag else None


def quoted_etag(etag: str) -> str:
    """Return an etag with quotes, as in conditions."""
    return f'"{bare_etag(etag)}"'
