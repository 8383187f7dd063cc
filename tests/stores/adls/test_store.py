"""What the in-test account does not answer, and Azure may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ray_committer.stores.adls.auth import Anonymous
from ray_committer.stores.adls.connect import Connection
from ray_committer.stores.adls.http import AdlsHttp
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.base import FileStatus, StoreSpec


class Canned:
    """An HTTP client whose answers are given; notes what it is asked."""

    def __init__(self, *answers: HttpAnswer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, url: str, **more: Any) -> HttpAnswer:
        self.asked.append((method, url, more["headers"]))
        return self._answers.pop(0)


def store(*answers: tuple[int, Mapping[str, str], bytes]) -> AdlsStore:
    connection = Connection("acct", "https://dfs", "https://blob", Anonymous())
    client: Any = Canned(
        *(HttpAnswer(status, {**ID, **headers}, body) for status, headers, body in answers)
    )
    return AdlsStore(StoreSpec("abfs"), AdlsHttp(connection, "lake", client))


ID = {"x-ms-request-id": "1"}
CONFLICT = (409, {"x-ms-error-code": "PathConflict"}, b"")
EXISTS = (409, {"x-ms-error-code": "PathAlreadyExists"}, b"")


def test_below_a_file_there_is_nothing():
    assert store(CONFLICT).get_status("/file/a") is None
    assert not store(CONFLICT).delete_file("/file/a")
    assert not store(CONFLICT).remove_empty_directory("/file/a")
    with pytest.raises(NotADirectoryError):
        store(CONFLICT).list_status("/file")


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_stands_in_the_way_is_looked_at_if_the_answer_does_not_tell(kind: str):
    found = store(EXISTS, (200, {"x-ms-resource-type": kind}, b""))
    if kind == "directory":
        found.mkdirs("/a")
    else:
        with pytest.raises(FileExistsError, match="/a"):
            found.mkdirs("/a")


def test_a_listing_may_leave_out_what_it_does_not_know():
    body = b'{"paths": [{"name": "a"}, {"name": "d", "isDirectory": "true", "contentLength": "0"}]}'
    assert store((200, {}, body)).list_status("/") == [
        FileStatus("/a", is_directory=False),
        FileStatus("/d", is_directory=True),
    ]


def test_an_empty_page_is_not_the_end():
    page = b'{"paths": [{"name": "a", "contentLength": "7", "etag": "0x1"}]}'
    pages = (200, {"x-ms-continuation": "more"}, b'{"paths": []}'), (200, {}, page)
    (found,) = store(*pages).list_files("/")
    assert (found.path, found.size, found.etag, found.version) == ("/a", 7, "0x1", "0x1")


def test_a_directory_is_moved_whole_as_hadoops_client_does_and_only_to_a_name_where_nothing_is():
    client = Canned(HttpAnswer(201, ID, b""))
    connection = Connection("acct", "https://dfs", "https://blob", Anonymous())
    AdlsStore(StoreSpec("abfs"), AdlsHttp(connection, "lake", client)).move_whole("/t/a", "/t/p=1")
    ((method, url, headers),) = client.asked
    assert (method, url) == ("PUT", "https://dfs/lake/t/p%3D1")
    assert headers["x-ms-rename-source"] == "/lake/t/a"
    assert headers["If-None-Match"] == "*"
