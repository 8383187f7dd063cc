"""WebHDFS by canned answers: what a real NameNode does not say, and gateways do."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.hdfs.webhdfs import WebHdfsStore


class Canned:
    """Redirects the first request to `location`, and notes where the next one goes."""

    def __init__(self, location: str, status: int = 200) -> None:
        self.location = location
        self.status = status
        self.urls: list[str] = []

    def request(self, _method: str, url: str, **_: Any) -> HttpAnswer:
        self.urls.append(url)
        if len(self.urls) == 1:
            return HttpAnswer(307, {"location": self.location}, b"")
        return HttpAnswer(self.status, {}, b"content")


def store(client: Any) -> WebHdfsStore:
    return WebHdfsStore(StoreSpec("webhdfs", "gateway:14000"), client=client)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("http://node:9864/webhdfs/v1/a?op=OPEN&x=%2B", "http://node:9864/webhdfs/v1/a?op=OPEN&x=%2B"),
        ("/webhdfs/v1/a?data=true", "http://gateway:14000/webhdfs/v1/a?data=true"),
        (
            "http://node:9864/webhdfs/v1/\xc3\xa9 b?op=OPEN",
            "http://node:9864/webhdfs/v1/%C3%A9%20b?op=OPEN",
        ),
    ],
    ids=["whole", "relative", "not quoted"],
)
def test_a_redirection_is_followed_wherever_it_leads(location: str, url: str):
    client = Canned(location)
    assert store(client).read("/a") == b"content"
    assert client.urls[1] == url


def test_a_gateway_that_says_that_it_renamed_nothing_is_believed():
    class Gateway:
        def request(self, *_: Any, **__: Any) -> HttpAnswer:
            return HttpAnswer(200, {}, b'{"boolean": false}')

    with pytest.raises(OSError, match="did not rename it") as caught:
        store(Gateway()).rename("/a", "/b")
    assert (caught.value.filename, caught.value.filename2) == ("/a", "/b")


def test_an_answer_without_a_status_is_no_success():
    with pytest.raises(OSError, match="is not WebHDFS"):
        store(Canned("http://node/", status=0)).write("/a", b"data")
