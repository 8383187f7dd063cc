"""WebHDFS by canned answers: what a real NameNode does not say, and gateways do."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
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


@pytest.mark.parametrize("is_there", [True, False])
def test_a_gateway_that_says_that_it_renamed_nothing_is_believed(is_there: bool):
    """It does not say why, also if the source is gone: an undo takes what was moved from its place."""

    class Gateway(NameNode):
        def request(self, method: str, url: str, **more: Any) -> HttpAnswer:
            if "op=GETFILESTATUS" in url and not is_there:
                missing = {"exception": "FileNotFoundException", "message": "/a"}
                return HttpAnswer(404, {}, msgspec.json.encode({"RemoteException": missing}))
            return super().request(method, url, **more)

    with pytest.raises(OSError, match="did not rename it" if is_there else "No such file") as caught:
        store(Gateway()).rename("/a", "/b")
    assert caught.value.errno == (errno.EIO if is_there else errno.ENOENT)
    assert (caught.value.filename, caught.value.filename2) == ("/a", "/b")


def test_an_answer_without_a_status_is_no_success():
    with pytest.raises(OSError, match="is not WebHDFS"):
        store(Canned("http://node/", status=0)).write("/a", b"data")


class NameNode:
    """Knows which directories are encrypted, and to which this user must not write; notes what it is
    asked."""

    def __init__(self, encrypted: str = "", closed: str = "") -> None:
        self.encrypted = encrypted
        self.closed = closed
        self.asked: list[str] = []

    def request(self, method: str, url: str, **_: Any) -> HttpAnswer:
        path, _, query = url.partition("/webhdfs/v1")[2].partition("?")
        self.asked.append(f"{method} {path}")
        if "op=GETFILESTATUS" in query:
            status: dict[str, Any] = {"pathSuffix": "", "type": "DIRECTORY", "length": 0}
            status |= {"modificationTime": 1, "encBit": path == self.encrypted}
            return HttpAnswer(200, {}, msgspec.json.encode({"FileStatus": status}))
        if self.closed and path.startswith(self.closed):
            denied = {"exception": "AccessControlException", "message": "Permission denied: user=me"}
            return HttpAnswer(403, {}, msgspec.json.encode({"RemoteException": denied}))
        return HttpAnswer(200, {}, b'{"boolean": false}')


def test_what_cannot_be_taken_out_of_a_directory_is_asked_by_the_deletion_of_a_name_that_is_not_there():
    node = NameNode(closed="/t/p1/")
    own = store(node)
    assert own.what_stays("/t/p2", ["/t/p2/a"], "/t/_temporary") == {}
    denied = "this user has no permission to remove files from it (Permission denied: user=me)"
    assert own.what_stays("/t/p1", ["/t/p1/a"], "/t/_temporary") == {"/t/p1": denied}
    deleted = [one for one in node.asked if one.startswith("DELETE")]
    assert len(deleted) == 2
    assert all("/.removable-" in one for one in deleted)


@pytest.mark.parametrize("encrypted", ["/t/p1", "/t/_temporary"])
def test_a_directory_in_another_encryption_zone_gives_no_file(encrypted: str):
    node = NameNode(encrypted=encrypted)
    why = {"/t/p1": "is in another encryption zone than /t/_temporary"}
    assert store(node).what_stays("/t/p1", ["/t/p1/a"], "/t/_temporary") == why
    assert not any(one.startswith("DELETE") for one in node.asked)


@pytest.mark.parametrize(("names", "is_page"), [(6, True), (7, False)])
def test_a_listing_is_a_page_if_the_name_node_makes_it_at_one_moment(names: int, is_page: bool):
    class Listing:
        def request(self, *_: Any, **__: Any) -> HttpAnswer:
            file = {"type": "FILE", "length": 1, "modificationTime": 1}
            files = [{**file, "pathSuffix": f"f{number}"} for number in range(names)]
            return HttpAnswer(200, {}, msgspec.json.encode({"FileStatuses": {"FileStatus": files}}))

    own = WebHdfsStore(StoreSpec("webhdfs", "h:1", {"dfs.ls.limit": "7"}), client=Listing())
    page, found = own.list_page("/a"), own.find_names("/a", ["f1", "g"])
    assert (page is not None, found is not None) == (is_page, is_page)
    assert [status.name for status in found or ()] == ["f1"] * is_page


class Renaming(NameNode):
    """Answers to the rename of a missing name as a NameNode, or as HttpFS, and numbers files or not."""

    def __init__(self, *, file_id: int, is_httpfs: bool) -> None:
        super().__init__()
        self.file_id = file_id
        self.is_httpfs = is_httpfs

    def request(self, method: str, url: str, **more: Any) -> HttpAnswer:
        answer = super().request(method, url, **more)
        if "op=GETFILESTATUS" in url and self.file_id:
            body = answer.body.replace(b'"length"', b'"fileId":%d,"length"' % self.file_id)
            return HttpAnswer(200, {}, body)
        if "op=RENAME" not in url or self.is_httpfs:
            return answer
        if ".missing-" not in url:
            return HttpAnswer(200, {}, b"")
        missing = {"exception": "FileNotFoundException", "message": "rename source is not found."}
        return HttpAnswer(404, {}, msgspec.json.encode({"RemoteException": missing}))


@pytest.mark.parametrize(("file_id", "is_httpfs"), [(0, True), (16_400, True), (0, False)])
def test_a_gateway_that_would_move_a_directory_into_another_gets_no_request_to_move_one(
    file_id: int, is_httpfs: bool
):
    gateway = Renaming(file_id=file_id, is_httpfs=is_httpfs)
    own = store(gateway)
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            own.move_whole("/t/in/a", "/t/p=1")
        assert caught.value.errno == errno.ENOTSUP
    assert "PUT /t/in/a" not in gateway.asked


def test_a_namenode_is_known_once_by_what_it_answers_to_a_missing_name():
    node = Renaming(file_id=16_400, is_httpfs=False)
    own = store(node)
    for number in range(3):
        own.move_whole(f"/t/in/{number}", f"/t/p={number}")
    assert node.asked[0] == "GET /t/in"  # whether or not the directory itself is there
    assert node.asked[1].startswith("PUT /t/in/.missing-")
    assert node.asked[2:] == ["PUT /t/in/0", "PUT /t/in/1", "PUT /t/in/2"]
