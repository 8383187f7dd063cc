"""Many deletions in few requests: each object as if it had been asked for alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.gcs.batch import MOST_CALLS
from ray_committer.stores.gcs.store import BATCHES_AT_ONCE, DELETES_AT_ONCE, GcsStore
from ray_committer.stores.guarded import GuardedStore
from tests.servers.gcs import BATCH, GcsServer, decode_calls, encode_answers, failure
from tests.servers.proxy import Answer, Fault, Harm, Request, Send

pytestmark = pytest.mark.xdist_group("gcs")

MANY = DELETES_AT_ONCE + BATCHES_AT_ONCE
ODD = (
    "a b",
    "ä/ö",
    "100%",
    "a?b#c&d",
    "quo\"te'",
    "plus+and=",
    "[x]{y}",
    "~.-_",
    "é" * 100,
    "new\nline",
)


def write(store: GcsStore, directory: str, files: int) -> list[str]:
    paths = [f"{directory}/f-{number:03}" for number in range(files)]
    for path in paths:
        store.write(path, b"1")
    return paths


def answer_call(
    server: GcsServer, monkeypatch, matches: Callable[[Request], bool], answer: Answer
) -> None:
    """Answer so to each call of a batch that `matches`, and leave its object alone."""
    others = server.proxy.answerer

    async def answer_all(request: Request, send: Send) -> Answer:
        if request.path != BATCH:
            return await others(request, send)
        calls = decode_calls(request)
        return encode_answers(
            request, [answer if matches(one) else await others(one, send) for one in calls]
        )

    monkeypatch.setattr(server.proxy, "answerer", answer_all)


def test_a_directory_of_many_objects_is_deleted_in_few_requests(store: GcsStore, server: GcsServer):
    write(store, "/d", MANY)
    server.proxy.requests.clear()
    assert store.delete_directory("/d")
    assert [request.method for request in server.proxy.requests] == ["GET"] + ["POST"] * BATCHES_AT_ONCE
    batches = [decode_calls(request) for request in server.proxy.requests if request.path == BATCH]
    assert [len(calls) for calls in batches] == [MANY // BATCHES_AT_ONCE] * BATCHES_AT_ONCE
    assert store.list_files("/") == []
    assert not store.delete_directory("/d")


def test_few_objects_are_deleted_by_a_request_each(store: GcsStore, server: GcsServer):
    write(store, "/d", DELETES_AT_ONCE)
    server.proxy.requests.clear()
    assert store.delete_directory("/d")
    assert [request.method for request in server.proxy.requests] == ["GET"] + [
        "DELETE"
    ] * DELETES_AT_ONCE


@pytest.mark.parametrize(
    "behind_proxy", [True, False], ids=["as answered here", "as the server answers"]
)
def test_names_of_all_kinds_are_deleted_and_no_other(server: GcsServer, bucket: str, behind_proxy: bool):
    endpoint = server.proxy.url if behind_proxy else server.url
    store = GcsStore(StoreSpec("gs", bucket, {**server.storage_options, "endpoint_url": endpoint}))
    for name in ODD:
        store.write(f"/d/{name}", b"1")
        store.write(f"/e/{name}", b"1")
    generations = dict.fromkeys([f"d/{name}" for name in ODD] + ["d/not there"])
    assert store._bucket.delete_all(generations)
    assert not store._bucket.delete_all(generations)
    assert {one.path for one in store.list_files("/")} == {f"/e/{name}" for name in ODD}


def test_what_was_written_again_since_it_was_listed_stays(store: GcsStore):
    paths = write(store, "/d", MANY)

    def write_anew() -> bool:
        store.write(paths[7], b"new")
        return True

    assert store.delete_listed(["/d"], write_anew)
    assert [one.path for one in store.list_files("/d")] == [paths[7]]
    assert store.read(paths[7]) == b"new"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(429, {"Retry-After": "7"}), ThrottledError),
        (Answer(503), ThrottledError),
        (Answer(403, body=b'{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}'), ThrottledError),
        (Answer(500), StoreUnavailableError),
        (failure(403, "Object is under active hold."), PermissionError),
    ],
)
def test_one_call_that_is_refused_is_an_error_that_names_its_object(
    store: GcsStore, server: GcsServer, monkeypatch, answer: Answer, error: type[OSError]
):
    paths = write(store, "/d", MANY)
    answer_call(server, monkeypatch, lambda call: call.path.endswith("f-008"), answer)
    with pytest.raises(error) as caught:
        store.delete_directory("/d")
    assert caught.type is error
    assert caught.value.filename == paths[8]
    asked = 7 if "Retry-After" in answer.headers else None
    assert getattr(caught.value, "retry_after_seconds", None) == asked
    left = [one.path for one in store.list_files("/d")]
    assert left == [paths[8]] if error is PermissionError else paths[8] in left


def test_calls_that_are_throttled_are_made_again(store: GcsStore, server: GcsServer, monkeypatch):
    write(store, "/d", MANY)
    refused: list[str] = []

    def is_first(call: Request) -> bool:
        if call.path in refused:
            return False
        refused.append(call.path)
        return len(refused) % 2 == 1

    answer_call(server, monkeypatch, is_first, Answer(429))
    assert GuardedStore(
        store, Permits(RateLimit(), "h", is_here=True), retry_seconds=30
    ).delete_directory("/d")
    assert store.list_files("/") == []
    assert refused


def test_a_server_that_throttles_is_not_sent_the_batches_that_wait(
    store: GcsStore, server: GcsServer, monkeypatch
):
    batches = 50
    answer_call(server, monkeypatch, lambda _: True, Answer(429))
    with pytest.raises(ThrottledError):
        store._delete_objects(dict.fromkeys(map(str, range(batches * MOST_CALLS))))
    assert len(server.proxy.requests) < batches


@pytest.mark.parametrize("harm", [Harm.CUT, Harm.LOSE])
def test_a_batch_without_an_answer_leaves_open_what_was_done(
    store: GcsStore, server: GcsServer, harm: Harm
):
    write(store, "/d", MANY)
    lost = Fault(harm, lambda request: request.path == BATCH)
    with server.proxy.faulty(lost), pytest.raises(StoreUnavailableError):
        store.delete_directory("/d")
    left = len(store.list_files("/d"))
    assert left == MANY if harm is Harm.CUT else left < MANY
    store.delete_directory("/d")
    assert store.list_files("/") == []


SPOILT: dict[str, Callable[[Answer], Answer]] = {
    "a part is missing": lambda answer: replace(answer, body=answer.body.partition(b"\r\n--")[2]),
    "cut off": lambda answer: replace(answer, body=answer.body[: answer.body.rindex(b"--batch")]),
    "no parts": lambda answer: replace(answer, headers={"Content-Type": "text/plain"}),
    "no boundary": lambda answer: replace(answer, headers={"Content-Type": "multipart/mixed"}),
    "no charset": lambda answer: replace(
        answer, headers={"Content-Type": "multipart/mixed; boundary*=undefined''b"}
    ),
    "no status": lambda answer: replace(
        answer, body=answer.body.replace(b"HTTP/1.1 200", b"HTTP/1.1 ok")
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_an_answer_that_does_not_say_what_became_of_each_object_is_none(
    store: GcsStore, server: GcsServer, monkeypatch, kind: str
):
    write(store, "/d", MANY)
    others = server.proxy.answerer

    async def spoilt(request: Request, send: Send) -> Answer:
        answer = await others(request, send)
        return SPOILT[kind](answer) if request.path == BATCH else answer

    monkeypatch.setattr(server.proxy, "answerer", spoilt)
    with pytest.raises(StoreUnavailableError, match="of 5 calls of a batch"):
        store.delete_directory("/d")


def test_lines_may_end_without_a_carriage_return(store: GcsStore, server: GcsServer, monkeypatch):
    write(store, "/d", MANY)
    others = server.proxy.answerer

    async def bare(request: Request, send: Send) -> Answer:
        answer = await others(request, send)
        return (
            replace(answer, body=answer.body.replace(b"\r\n", b"\n"))
            if request.path == BATCH
            else answer
        )

    monkeypatch.setattr(server.proxy, "answerer", bare)
    assert store.delete_directory("/d")


def test_a_server_without_batches_is_asked_for_each_object(
    store: GcsStore, server: GcsServer, monkeypatch
):
    paths = write(store, "/d", MANY)
    lacking = Fault(Harm.REFUSE, lambda request: request.path == BATCH, status=404)

    def write_anew() -> bool:
        store.write(paths[7], b"new")
        return True

    server.proxy.requests.clear()
    with server.proxy.faulty(lacking):
        assert store.delete_listed(["/d"], write_anew)
        assert [one.path for one in store.list_files("/d")] == [paths[7]]
        write(store, "/d", MANY)
        assert store.delete_directory("/d")
    asked = sum(request.path == BATCH for request in server.proxy.requests)
    assert 1 <= asked <= BATCHES_AT_ONCE  # in the first deletion only


def test_calls_do_not_bear_what_is_before_the_api_in_the_endpoint(
    server: GcsServer, bucket: str, monkeypatch
):
    """A gateway takes it from the request, but not from the calls in it."""
    others = server.proxy.answerer

    async def gateway(request: Request, send: Send) -> Answer:
        return await others(replace(request, path=request.path.removeprefix("/gateway")), send)

    monkeypatch.setattr(server.proxy, "answerer", gateway)
    endpoint = f"{server.proxy.url}/gateway"
    store = GcsStore(StoreSpec("gs", bucket, {**server.storage_options, "endpoint_url": endpoint}))
    write(store, "/d", MANY)
    assert store.delete_directory("/d")
    assert store.list_files("/") == []


@pytest.mark.parametrize("files", [DELETES_AT_ONCE, MANY])
@pytest.mark.parametrize("status", [409, 412])
def test_only_what_is_bound_to_a_generation_may_be_left(
    store: GcsStore, server: GcsServer, monkeypatch, files: int, status: int
):
    paths = write(store, "/d", files)
    others = server.proxy.answerer

    async def refuse(request: Request, send: Send) -> Answer:
        if request.path == BATCH:
            return encode_answers(request, [await refuse(one, send) for one in decode_calls(request)])
        is_refused = request.method == "DELETE" and "f-008" in request.path
        return failure(status, "refused") if is_refused else await others(request, send)

    monkeypatch.setattr(server.proxy, "answerer", refuse)
    with pytest.raises(FileExistsError):
        store.delete_directory("/d")
    write(store, "/d", files)
    assert store.delete_listed(["/d"], lambda: True)
    assert [one.path for one in store.list_files("/d")] == [paths[8]]


def test_each_call_names_the_project_that_pays(server: GcsServer, bucket: str):
    store = GcsStore(StoreSpec("gs", bucket, {**server.storage_options, "requester_pays": "other"}))
    write(store, "/d", MANY)
    server.proxy.requests.clear()
    assert store.delete_directory("/d")
    calls = [call for one in server.proxy.requests if one.path == BATCH for call in decode_calls(one)]
    assert len(calls) == MANY
    assert all(re.search(r"[?&]userProject=other(&|$)", call.path) for call in calls)


def test_a_batch_is_no_larger_than_google_takes(store: GcsStore, server: GcsServer):
    paths = write(store, "/d", 1)
    server.proxy.requests.clear()
    store._delete_objects(
        {paths[0][1:]: None, **dict.fromkeys(map(str, range(2 * MOST_CALLS * BATCHES_AT_ONCE)))}
    )
    sizes = [len(decode_calls(request)) for request in server.proxy.requests]
    assert max(sizes) == MOST_CALLS
    assert len(sizes) == 2 * BATCHES_AT_ONCE + 1
    assert store.list_files("/") == []
