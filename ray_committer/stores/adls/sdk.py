"""`AdlsStore` through the vendor's client, if you must use that: a request takes ten times the CPU.

The client's retries are off, because it takes its own repetition of a rename for a missing source. It
also decodes the source of a rename once too often, so a literal ``%3A`` must be passed as ``%253A``.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

from azure.core import MatchConditions
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.filedatalake import DataLakeFileClient, FileSystemClient
from requests import Session
from requests.adapters import HTTPAdapter

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.adls.auth import Bearer, Connection, SharedKey
from ray_committer.stores.adls.costs import cost_warnings
from ray_committer.stores.adls.http import (
    APPEND_BYTES,
    PAGE_PATHS,
    AdlsHttp,
    bare_etag,
    error_of,
    quoted_etag,
)
from ray_committer.stores.adls.store import AdlsStore, file_status
from ray_committer.stores.base import FileStatus, StoreCapabilities, StoreSpec
from ray_committer.stores.http import DEADLINE_SECONDS, raise_if_unanswered
from ray_committer.stores.state_names import NamedStates

CONNECTIONS = 128


class SdkAdlsStore(NamedStates):
    """`StoreOperations` that behave like those of `AdlsStore`."""

    capabilities: StoreCapabilities = AdlsStore.capabilities

    def __init__(self, spec: StoreSpec, connection: Connection, container: str) -> None:
        self.spec = spec
        self._connection = connection
        self._container = container

    @cached_property
    def _client(self) -> FileSystemClient:
        session = Session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_connections=4, pool_maxsize=CONNECTIONS))
        return FileSystemClient(
            self._connection.dfs,
            self._container,
            credential=_credential(self._connection),
            transport=RequestsTransport(session=session, session_owner=False),
            retry_total=0,
            connection_timeout=DEADLINE_SECONDS,
            read_timeout=DEADLINE_SECONDS,
        )

    def get_status(self, path: str) -> FileStatus | None:
        if path == "/":
            return FileStatus("/", is_directory=True)
        try:
            with _errors(path):
                found = self._file(path).get_file_properties()
        except FileNotFoundError:
            return None
        folder = (found.metadata or {}).get("hdi_isfolder") == "true"
        return _status(path, found, is_directory=folder)

    def list_status(self, path: str) -> list[FileStatus]:
        return list(self._list(path, recursive=False))

    def list_files(self, path: str) -> list[FileStatus]:
        try:
            return [found for found in self._list(path, recursive=True) if not found.is_directory]
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        with _errors(path):
            return bytes(self._file(path).download_file().readall())

    def write(self, path: str, data: bytes) -> None:
        with _errors(path):
            file = self._file(path)
            file.create_file()
            for start in range(0, len(data), APPEND_BYTES):
                part = data[start : start + APPEND_BYTES]
                file.append_data(part, start, len(part), flush=start + len(part) == len(data))

    def mkdirs(self, path: str) -> None:
        if path == "/":
            return
        try:
            with _errors(path):
                client = self._client.get_directory_client(path)
                client.create_directory(match_condition=MatchConditions.IfMissing)
        except FileExistsError:
            status = self.get_status(path)
            if status is None or not status.is_directory:
                raise

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._rename(source, dest, version, match_condition=MatchConditions.IfMissing)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        conditions: dict[str, Any] = {}
        if old is not None:
            conditions = {"etag": quoted_etag(old), "match_condition": MatchConditions.IfNotModified}
        self._rename(source, dest, version, **conditions)

    def delete_file(self, path: str) -> bool:
        return self._delete(path)

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a file if it has this etag."""
        etag, condition = quoted_etag(version or ""), MatchConditions.IfNotModified
        return self._delete(path, etag=etag, match_condition=condition)

    def delete_directory(self, path: str) -> bool:
        return self._delete(path, recursive=True)

    def remove_empty_directory(self, path: str) -> bool:
        try:
            return self._delete(path, recursive=False)
        except OSError as e:
            if e.errno == errno.ENOTEMPTY:
                return False
            raise

    def cost_warnings(self) -> list[str]:
        http = AdlsHttp(self._connection, self._container)
        try:
            return cost_warnings(http)
        finally:
            http.close()

    def _delete(self, path: str, **options: Any) -> bool:
        try:
            with _errors(path):
                self._file(path).delete_file(**options)
        except FileNotFoundError:
            return False
        return True

    def _rename(self, source: str, dest: str, version: str | None, **conditions: Any) -> None:
        if version is not None:
            conditions["source_etag"] = quoted_etag(version)
            conditions["source_match_condition"] = MatchConditions.IfNotModified
        with _errors(source, dest):
            file = self._file(source.replace("%", "%25"))
            file.rename_file(f"{self._container}{dest}", **conditions)

    def _list(self, path: str, *, recursive: bool) -> Iterator[FileStatus]:
        with _errors(path):
            root = None if path == "/" else path[1:]
            for found in self._client.get_paths(root, recursive=recursive, max_results=PAGE_PATHS):
                yield _status(f"/{found.name}", found, is_directory=bool(found.is_directory))

    def _file(self, path: str) -> DataLakeFileClient:
        return self._client.get_file_client(path)


class _Token(TokenCredential):
    """The token that all threads share."""

    def __init__(self, bearer: Bearer) -> None:
        self._bearer = bearer

    def get_token(self, *scopes: str, **_: Any) -> Any:
        return self._bearer.get_token(*scopes)


def _credential(connection: Connection) -> Any:
    match connection.authorization:
        case SharedKey() as shared:
            return {"account_name": shared.account, "account_key": shared.key}
        case Bearer() as bearer:
            return _Token(bearer)
        case other:
            return other.query or None


def _status(path: str, found: Any, *, is_directory: bool) -> FileStatus:
    size = found.size if hasattr(found, "size") else found.content_length
    modified: datetime | None = found.last_modified
    return file_status(
        path,
        is_directory=is_directory,
        size=size or 0,
        modified_milliseconds=int(modified.timestamp()) * 1000 if modified else None,
        etag=bare_etag(found.etag),
    )


@contextmanager
def _errors(path: str, other: str | None = None) -> Iterator[None]:
    """Turn the client's errors into Python's own, without their texts, which may contain a SAS."""
    try:
        yield
    except HttpResponseError as e:
        headers = getattr(e.response, "headers", {})
        status = e.status_code or 500
        raise_if_unanswered(path, "sdk", status, headers)
        raise error_of(status, headers.get("x-ms-error-code", ""), path, other) from None
    except AzureError as e:
        raise StoreUnavailableError(path, f"sdk: {type(e).__name__}") from None
