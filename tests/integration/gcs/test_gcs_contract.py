"""The store contract on a real server, and what only this store promises."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

import pytest

import ray_committer
from ray_committer.errors import (
    CommitStateUnknownError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.stores.answers import CredentialsRefusedError
from ray_committer.stores.base import StoreOperations, StoreSpec, Versions
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.stores.registry import open_store
from ray_committer.testing import StoreContract
from tests.integration.gcs.conftest import RENAMES
from tests.servers.gcs import GcsServer
from tests.servers.proxy import Answer, Fault, Harm, Request, Send
from tests.tiers import FewerCrashes

pytestmark = pytest.mark.xdist_group("gcs")


class TestGcs(FewerCrashes, StoreContract):
    faulty_renames = RENAMES

    @pytest.fixture
    def store(self, server: GcsServer, bucket: str) -> StoreOperations:
        return GcsStore(StoreSpec("gs", bucket, server.storage_options))

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


def test_a_flat_bucket_has_no_directories_and_versions_that_are_listed(store: GcsStore):
    assert not store.capabilities.has_directories
    assert store.capabilities.versions is Versions.LISTED
    assert (store.capabilities.max_path_length, store.capabilities.max_name_length) == (1 + 1024, 1024)


def test_a_status_tells_when_it_was_written_and_what_it_holds(store: GcsStore):
    before = time.time_ns() // 1_000_000
    store.write("/a", b"123456789")
    status = store.get_status("/a")
    assert status is not None
    assert status.modified_milliseconds is not None
    assert before - 1 <= status.modified_milliseconds <= time.time_ns() // 1_000_000
    assert status.etag == "crc32c=4waSgw=="  # the check value of CRC-32C, as base64


def test_a_listing_of_many_pages_is_whole(store: GcsStore):
    names = {f"/d/f-{number}" for number in range(7)}
    for name in names:
        store.write(name, b"x")
    pages = list(store._bucket.pages("d/", limit=3))
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert {f"/{item.name}" for page in pages for item in page.items} == names
    assert {one.path for one in store.list_files("/d")} == names


@pytest.mark.parametrize(
    ("operation", "requests"),
    [
        (lambda store: store.write("/d/b", b"1"), 1),
        (lambda store: store.read("/d/a"), 1),
        (lambda store: store.get_status("/d/a"), 1),
        (lambda store: store.get_status("/d/missing"), 2),
        (lambda store: store.list_status("/d"), 1),
        (lambda store: store.list_files("/d"), 1),
        (lambda store: store.mkdirs("/d/e"), 1),
        (lambda store: store.rename("/d/a", "/d/b"), 1),
        (lambda store: store.delete_file("/d/a"), 1),
        (lambda store: store.remove_empty_directory("/e"), 2),
        (lambda store: store.delete_directory("/d"), 2),
    ],
)
def test_these_operations_are_more_than_one_request(
    server: GcsServer, store: GcsStore, operation: Callable[[GcsStore], object], requests: int
):
    store.write("/d/a", b"1")
    store.mkdirs("/e")
    server.proxy.requests.clear()
    operation(store)
    assert len(server.proxy.requests) == requests


def test_a_page_without_objects_is_not_the_last(store: GcsStore, server: GcsServer, monkeypatch):
    answer = server.proxy.answerer

    async def empty_first(request: Request, send: Send) -> Answer:
        listing, _, rest = request.path.partition("&pageToken=more")
        if request.method == "GET" and "prefix=" in listing and listing == request.path:
            return Answer(200, {"Content-Type": "application/json"}, b'{"nextPageToken": "more"}')
        return await answer(replace(request, path=listing + rest), send)

    store.write("/d/p=1/a", b"1")
    monkeypatch.setattr(server.proxy, "answerer", empty_first)
    assert [one.path for one in store.list_status("/d")] == ["/d/p=1"]
    assert [one.path for one in store.list_files("/d")] == ["/d/p=1/a"]


def test_only_what_is_asked_for_gets_a_mark(store: GcsStore):
    store.mkdirs("/a/b/c")
    assert [item.name for page in store._bucket.pages("") for item in page.items] == ["a/b/c/"]


def test_marking_a_directory_again_leaves_its_mark_alone(store: GcsStore):
    store.mkdirs("/a")
    (before,) = [item for page in store._bucket.pages("a/") for item in page.items]
    store.mkdirs("/a")
    assert [item for page in store._bucket.pages("a/") for item in page.items] == [before]


def test_a_mark_that_was_made_again_meanwhile_is_not_removed(
    store: GcsStore, server: GcsServer, monkeypatch
):
    answer = server.proxy.answerer

    async def made_again(request: Request, send: Send) -> Answer:
        if request.method == "DELETE":
            mark = request.path.partition("?")[0].rpartition("/")[2]
            upload = f"/upload/storage/v1/b/{store.spec.authority}/o?uploadType=media&name={mark}"
            assert (await send(Request("POST", upload))).status == 200
        return await answer(request, send)

    store.mkdirs("/a")
    monkeypatch.setattr(server.proxy, "answerer", made_again)
    assert not store.remove_empty_directory("/a")
    assert store.get_status("/a") is not None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, CredentialsRefusedError),
        (403, PermissionError),
        (404, FileNotFoundError),
        (409, FileExistsError),
        (412, FileExistsError),
        (400, OSError),
        (429, ThrottledError),
        (503, ThrottledError),
        (408, StoreUnavailableError),
        (500, StoreUnavailableError),
        (502, StoreUnavailableError),
        (504, StoreUnavailableError),
    ],
)
def test_a_refused_rename_is_an_error_of_its_own_kind_and_is_made_once(
    server: GcsServer, store: GcsStore, status: int, error: type[OSError]
):
    store.write("/a", b"1")
    server.proxy.requests.clear()
    with server.proxy.faulty(Fault(Harm.REFUSE, status=status)), pytest.raises(error) as caught:
        store.rename("/a", "/b")
    assert caught.type is error
    assert caught.value.filename == "/a"
    assert len(server.proxy.requests) == 1
    assert store.read("/a") == b"1"


@pytest.mark.parametrize("harm", [Harm.CUT, Harm.LOSE])
def test_a_connection_that_is_cut_leaves_open_what_was_done(
    server: GcsServer, store: GcsStore, harm: Harm
):
    store.write("/a", b"1")
    server.proxy.requests.clear()
    with server.proxy.faulty(Fault(harm)), pytest.raises(StoreUnavailableError):
        store.rename("/a", "/b")
    assert len(server.proxy.requests) == 1  # neither repeated nor made otherwise
    assert (store.get_status("/b") is not None) == (harm is Harm.LOSE)


def test_what_the_bucket_says_is_in_the_error(server: GcsServer, store: GcsStore):
    body = b'{"error": {"code": 403, "message": "Object is under active hold."}}'
    refused = pytest.raises(PermissionError, match=r"under active hold\. \(HTTP 403\)")
    with server.proxy.faulty(Fault(Harm.REFUSE, status=403, body=body)), refused:
        store.rename("/a", "/b")


@pytest.mark.parametrize("reason", [b"rateLimitExceeded", b"userRateLimitExceeded"])
def test_a_limit_of_requests_is_no_lack_of_permission(server: GcsServer, store: GcsStore, reason: bytes):
    body = b'{"error": {"code": 403, "errors": [{"reason": "%s"}]}}' % reason
    with server.proxy.faulty(Fault(Harm.REFUSE, status=403, body=body)), pytest.raises(ThrottledError):
        store.rename("/a", "/b")


@pytest.mark.parametrize(("pays", "payer"), [("other", "other"), (True, "own")])
def test_each_request_names_the_project_that_pays(
    server: GcsServer, bucket: str, pays: str | bool, payer: str
):
    options = {**server.storage_options, "requester_pays": pays, "project": "own"}
    store = GcsStore(StoreSpec("gs", bucket, options))
    store.mkdirs("/d")
    store.write("/d/a", b"1")
    store.rename("/d/a", "/d/b")
    store.replace("/d/b", "/d/a")
    store.read("/d/a")
    store.list_status("/d")
    store.get_status("/missing")
    store.delete_directory("/d")
    asked = [request.path for request in server.proxy.requests]
    assert len(asked) > 8
    assert all(re.search(rf"[?&]userProject={payer}(&|$)", path) for path in asked)


def test_a_bucket_that_is_not_there_is_no_empty_directory(server: GcsServer):
    store = GcsStore(StoreSpec("gs", "missing", server.storage_options))
    with pytest.raises(FileNotFoundError):
        store.list_files("/a")
    with pytest.raises(FileNotFoundError):
        store.write("/a", b"1")


def test_a_store_that_throttles_while_it_is_opened_is_asked_again(server: GcsServer, bucket: str):
    with server.proxy.faulty(Fault(Harm.REFUSE, times=2, status=429)):
        store = GcsStore(StoreSpec("gs", bucket, server.storage_options))
    assert store.list_status("/") == []


def test_a_server_in_trouble_does_not_make_a_bucket_flat(server: GcsServer, bucket: str, monkeypatch):
    monkeypatch.setattr("ray_committer.stores.guarded.ATTEMPTS", 2)
    trouble = Fault(Harm.REFUSE, status=500)
    with server.proxy.faulty(trouble), pytest.raises(StoreUnavailableError):
        GcsStore(StoreSpec("gs", bucket, server.storage_options))
    with (
        server.proxy.faulty(trouble),
        pytest.raises(CommitStateUnknownError, match="nothing was changed"),
    ):
        ray_committer.commit_job(
            f"gs://{bucket}/t", "job_1", executor="inline", storage_options=server.storage_options
        )


def test_a_url_without_a_bucket_is_refused():
    with pytest.raises(StoreRefusedError, match="names no bucket"):
        open_store(StoreSpec("gs", "", {"token": "anon"}))


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("a file without an account", StoreRefusedError, "no credentials"),
        ("a token that nobody answers for", StoreUnavailableError, "issued no token"),
    ],
)
def test_credentials_that_are_none_are_refused_without_showing_them(
    tmp_path, monkeypatch, kind: str, error: type[Exception], text: str
):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    token = "very-secret"
    if kind == "a file without an account":
        (tmp_path / "key.json").write_text(f'{{"private_key": "{token}"}}')
        token = str(tmp_path / "key.json")
    with pytest.raises(error, match=text) as caught:
        open_store(StoreSpec("gs", "bucket", {"token": token}), retry_seconds=0.5)
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (b"{}", []),
        (
            b'{"softDeletePolicy": {"retentionDurationSeconds": "0"}, "versioning": {"enabled": false}}',
            [],
        ),
        (b'{"softDeletePolicy": {"retentionDurationSeconds": "604800"}}', ["keeps for 7 days"]),
        (b'{"versioning": {"enabled": true}}', ["versioning keeps"]),
    ],
)
def test_settings_that_cost_are_told(
    store: GcsStore, server: GcsServer, monkeypatch, settings: bytes, warned: list[str]
):
    async def answer(request: Request, send: Send) -> Answer:
        return Answer(200, {"Content-Type": "application/json"}, settings)

    monkeypatch.setattr(server.proxy, "answerer", answer)
    found = store.cost_warnings()
    assert [part in text for part, text in zip(warned, found, strict=True)] == [True] * len(warned)


def test_settings_that_may_not_be_read_are_no_failure_of_the_store(store: GcsStore, server: GcsServer):
    with (
        server.proxy.faulty(Fault(Harm.REFUSE, status=403)),
        pytest.raises(PermissionError, match="HTTP 403"),
    ):
        store.cost_warnings()
