"""Answers that are not Google's, refused tokens, and options that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google.auth.compute_engine._metadata
import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import CommitStateUnknownError, SettingsError, StoreUnavailableError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.answers import CredentialsRefusedError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.stores.registry import open_store
from ray_committer.testing import visible_files
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.gcs import GcsServer, failure
from tests.servers.pages import every_page, one_page, page_fault
from tests.servers.proxy import Answer, Fault, Harm, Request, Send
from tests.servers.tokens import PAGE, TokenServer

pytestmark = [pytest.mark.xdist_group("gcs"), pytest.mark.timeout(120)]

REQUESTS: dict[str, Callable[[GcsStore], object]] = {
    "status": lambda store: store.get_status("/a"),
    "list": lambda store: store.list_status("/"),
    "list all": lambda store: store.list_files("/"),
    "write": lambda store: store.write("/c", b"2"),
    "rename": lambda store: store.rename("/a", "/b"),
    "state": lambda store: store.read_state("/a"),
    "read": lambda store: store.read("/a"),
}
COSTS: dict[str, Callable[[GcsStore], object]] = {"settings": lambda store: store.cost_warnings()}


def is_move(request: Request) -> bool:
    return "/moveTo/o/" in request.path


@every_page
@pytest.mark.parametrize("name", [*REQUESTS, *COSTS])
def test_an_answer_that_is_not_googles_is_no_answer(
    server: GcsServer, store: GcsStore, page: str, name: str
):
    store.write("/a", b"1")
    ask = {**REQUESTS, **COSTS}[name]
    with server.proxy.faulty(page_fault(page)), pytest.raises(StoreUnavailableError) as caught:
        ask(store)
    assert "is not the store's" in str(caught.value)
    assert "login page" in str(caught.value)
    assert store.read("/a") == b"1"


def test_a_bucket_that_a_login_page_answers_for_is_asked_again(server: GcsServer, bucket: str):
    with server.proxy.faulty(page_fault("login page", times=2)):
        store = open_store(StoreSpec("gs", bucket, server.storage_options))
    assert store.list_status("/") == []


@one_page
def test_a_commit_goes_on_when_the_login_page_is_gone(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt, page: str
):
    """Also if it has answered for a move, which then was not made."""
    tasks = tasks_of(24)
    write_job(store, job, tasks)
    faults = [page_fault(page, is_move, times=5), page_fault(page, times=5)]
    with server.proxy.faulty(*faults):
        report = ray_committer.commit_job(
            f"gs://{bucket}{job.destination}", job.job_id, storage_options=server.storage_options
        )
    assert report.outcome is Outcome.COMMITTED
    assert server.proxy.counts[Harm.REFUSE] == 10
    assert visible_files(store, job.destination) == all_of(tasks)


def test_a_commit_that_meets_only_a_login_page_names_it_and_the_bucket(server: GcsServer, bucket: str):
    with server.proxy.faulty(page_fault("login page")), pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(
            f"gs://{bucket}/t",
            "job_1",
            options=CommitOptions(retry_seconds=1),
            storage_options=server.storage_options,
        )
    assert caught.value.what.startswith(f"gs://{bucket}/: the answer is not the store's (HTTP 200, ")
    assert "a proxy or a login page" in caught.value.what
    assert len(server.proxy.requests) > 1


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    yield server
    server.stop()


@pytest.fixture
def options(server: GcsServer, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Storage options with a key whose tokens the bucket verifies."""
    answer = server.proxy.answerer
    assert answer is not None

    async def verify(request: Request, send: Send) -> Answer:
        if tokens.is_valid(request.headers.get("Authorization")):
            return await answer(request, send)
        return failure(401, "Invalid Credentials")

    monkeypatch.setattr(server.proxy, "answerer", verify)
    return {**server.storage_options, "token": tokens.service_account()}


@pytest.fixture(params=["service account", "metadata"])
def renewable(
    request: pytest.FixtureRequest,
    options: dict[str, Any],
    tokens: TokenServer,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    if request.param == "metadata":
        monkeypatch.setattr(google.auth.compute_engine._metadata, "_GCE_METADATA_HOST", tokens.authority)
        monkeypatch.setenv("GCE_METADATA_IP", tokens.authority)
        return {**options, "token": "google_default"}
    return options


def test_a_token_that_was_revoked_is_replaced_once(
    server: GcsServer, bucket: str, tokens: TokenServer, renewable: dict[str, Any]
):
    store = GcsStore(StoreSpec("gs", bucket, renewable))
    store.write("/a", b"1")
    tokens.revoke()
    before = tokens.issued
    server.proxy.requests.clear()
    store.rename("/a", "/b")
    assert [is_move(request) for request in server.proxy.requests] == [True, True]
    assert store.read("/b") == b"1"
    assert tokens.issued == before + 1


def test_many_threads_replace_a_token_once(bucket: str, tokens: TokenServer, options: dict[str, Any]):
    store = GcsStore(StoreSpec("gs", bucket, options))
    store.write("/a", b"1")
    tokens.revoke()
    before = tokens.issued
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: store.read("/a"), range(64))) == {b"1"}
    assert tokens.issued == before + 1


def test_a_commit_outlives_its_token(
    server: GcsServer,
    bucket: str,
    job: JobAttempt,
    tokens: TokenServer,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
):
    tasks = tasks_of(24)
    store = GcsStore(StoreSpec("gs", bucket, options))
    write_job(store, job, tasks)
    answer = server.proxy.answerer
    assert answer is not None
    moved = iter(range(24))

    async def revoke_at_the_fifth_move(request: Request, send: Send) -> Answer:
        if is_move(request) and next(moved, 0) == 5:
            tokens.revoke()
        return await answer(request, send)

    monkeypatch.setattr(server.proxy, "answerer", revoke_at_the_fifth_move)
    report = ray_committer.commit_job(
        f"gs://{bucket}{job.destination}", job.job_id, storage_options=options
    )
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, 24)
    assert visible_files(store, job.destination) == all_of(tasks)


def test_a_new_token_that_is_refused_too_is_an_error_that_says_so(
    server: GcsServer, bucket: str, options: dict[str, Any], tokens: TokenServer
):
    store = GcsStore(StoreSpec("gs", bucket, options))
    store.write("/a", b"1")
    server.proxy.requests.clear()
    before = tokens.issued
    text = r"refuses the token of committer@project, also a new one: .* \(HTTP 401\)"
    with (
        server.proxy.faulty(Fault(Harm.REFUSE, status=401)),
        pytest.raises(CredentialsRefusedError, match=text),
    ):
        store.rename("/a", "/b")
    assert len(server.proxy.requests) == 2
    assert tokens.issued == before + 1


@pytest.mark.usefixtures("options")
def test_a_bucket_that_refuses_the_credentials_does_not_count_as_flat(server: GcsServer, bucket: str):
    with pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(f"gs://{bucket}/t", "job_1", storage_options=server.storage_options)
    refused = "Google refuses a request without credentials: Invalid Credentials (HTTP 401)"
    assert caught.value.what.startswith(f"gs://{bucket}/: {refused}, so the state")


@pytest.mark.parametrize("page", [PAGE, b"", b'{"access', b"[]"])
def test_a_login_page_in_place_of_the_token_is_no_answer(
    bucket: str, tokens: TokenServer, renewable: dict[str, Any], page: bytes
):
    store = GcsStore(StoreSpec("gs", bucket, renewable))
    store.write("/a", b"1")
    tokens.revoke()
    tokens.bodies = [page] * 4
    with pytest.raises(StoreUnavailableError, match="issued no token"):
        store.read("/a")
    tokens.bodies = []
    assert store.read("/a") == b"1"


def test_a_store_is_opened_though_a_login_page_answers_for_a_token(
    bucket: str, tokens: TokenServer, options: dict[str, Any]
):
    tokens.bodies = [PAGE, b""]
    assert GcsStore(StoreSpec("gs", bucket, options)).list_status("/") == []


def test_a_bucket_that_does_not_tell_its_kind_is_warned_of_once(
    server: GcsServer, bucket: str, caplog: pytest.LogCaptureFixture
):
    with server.proxy.faulty(Fault(Harm.REFUSE, status=403)):
        stores = [GcsStore(StoreSpec("gs", bucket, server.storage_options)) for _ in range(3)]
    assert not any(store.capabilities.has_directories for store in stores)
    assert caplog.text.count(f"gs://{bucket}: is used as a flat bucket") == 1


def test_an_option_that_does_not_exist_is_refused_by_name(server: GcsServer, bucket: str):
    options = {"endpoint_uri": server.proxy.url, "token": "very-secret"}
    with pytest.raises(SettingsError) as caught:
        ray_committer.commit_job(f"gs://{bucket}/t", "job_1", storage_options=options)
    assert caught.value.what == f"gs://{bucket}: 'endpoint_uri' is not a storage option"
    assert caught.value.advice.startswith("did you mean endpoint_url? the storage options here are acc")
    assert "very-secret" not in str(caught.value)
    assert server.proxy.requests == []
