"""Answers that are not Azure's, credentials that are refused, and options that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.identity import DefaultAzureCredential, ManagedIdentityCredential
from azure.storage.filedatalake import AccountSasPermissions, ResourceTypes, generate_account_sas

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import (
    CommitStateUnknownError,
    SettingsError,
    StoreRefusedError,
    StoreUnavailableError,
)
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.answers import CredentialsRefusedError
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.output import open_input
from ray_committer.stores.registry import open_stores, resolve_destination
from ray_committer.testing import visible_files
from ray_committer.testing.harness import put_file
from tests.integration.adls.conftest import CONTAINER, opened
from tests.servers.dfs import ACCOUNT, KEY, DfsServer
from tests.servers.pages import every_page, page_fault
from tests.servers.proxy import Fault, Harm, Proxy, Request
from tests.servers.tokens import PAGE, TokenServer

pytestmark = [pytest.mark.xdist_group("adls"), pytest.mark.timeout(120)]

OTHER_KEY = "b3RoZXIga2V5"

REQUESTS: dict[str, Callable[[StoreOperations], object]] = {
    "status": lambda store: store.get_status("/d/a"),
    "list": lambda store: store.list_status("/d"),
    "list all": lambda store: store.list_files("/d"),
    "write": lambda store: store.write("/d/c", b"2"),
    "rename": lambda store: store.rename("/d/a", "/d/b"),
    "read": lambda store: store.read("/d/a"),
    "delete": lambda store: store.delete_file("/d/a"),
    "delete all": lambda store: store.delete_directory("/d"),
    "settings": lambda store: store.cost_warnings(),  # type: ignore[attr-defined]
}


def is_rename(request: Request) -> bool:
    return "x-ms-rename-source" in request.headers


@pytest.fixture
def proxy(dfs: DfsServer) -> Iterator[Proxy]:
    proxy = Proxy(f"http://127.0.0.1:{dfs.port}").start()
    yield proxy
    proxy.stop()


@pytest.fixture
def options(proxy: Proxy) -> dict[str, Any]:
    """Storage options with the account's key, by way of the proxy."""
    return {"account_key": KEY, "endpoint": f"{proxy.url}/{ACCOUNT}"}


@every_page
@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_that_is_not_azures_is_no_answer(
    proxy: Proxy, url: str, options: dict[str, Any], page: str, name: str
):
    store = opened(url, options)
    put_file(store, "/d/a", b"1")
    with proxy.faulty(page_fault(page)), pytest.raises(StoreUnavailableError) as caught:
        REQUESTS[name](store)
    assert "is not the store's" in str(caught.value)
    assert "login page" in str(caught.value)
    assert store.read("/d/a") == b"1"


@pytest.mark.parametrize("name", ["list", "list all"])
def test_a_list_that_was_cut_off_is_no_answer(
    proxy: Proxy, url: str, options: dict[str, Any], name: str
):
    """The headers are the service's own."""
    store = opened(url, options)
    fault = page_fault("half")
    fault.headers = {**fault.headers, "x-ms-request-id": "1"}
    with proxy.faulty(fault), pytest.raises(StoreUnavailableError, match="is not the store's") as caught:
        REQUESTS[name](store)
    assert caught.value.filename == "/d"


def test_a_page_that_says_that_nothing_is_there_is_no_answer(
    proxy: Proxy, url: str, options: dict[str, Any]
):
    store = opened(url, options)
    with proxy.faulty(Fault(Harm.REFUSE, status=404)), pytest.raises(StoreUnavailableError):
        store.get_status("/d/a")


@every_page
def test_a_commit_goes_on_when_the_login_page_is_gone(
    proxy: Proxy, url: str, options: dict[str, Any], page: str
):
    """Also if it has answered for a rename, which then was not made, and while the store is opened."""
    ray_committer.setup_job(url, "job_1", storage_options=options)
    with ray_committer.task_attempt(url, "job_1", 0, storage_options=options) as attempt:
        for number in range(8):
            put_file(attempt.store, f"{attempt.directory}/p=1/{number}", b"1")
    renames = page_fault(page, lambda request: is_rename(request) and "/p%3D1/" in request.path, times=3)
    open_stores.clear()  # as in another process
    with proxy.faulty(renames, page_fault(page, times=3)):
        report = ray_committer.commit_job(url, "job_1", storage_options=options)
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, 8)
    assert proxy.counts[Harm.REFUSE] == 6
    path = url.partition(".net")[2]
    assert visible_files(opened(url, options), path) == {f"p=1/{n}": b"1" for n in range(8)}


def test_a_commit_that_meets_only_a_login_page_names_it_and_the_container(
    proxy: Proxy, url: str, options: dict[str, Any]
):
    with proxy.faulty(page_fault("login page")), pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(
            url, "job_1", options=CommitOptions(retry_seconds=1), storage_options=options
        )
    place = f"abfs://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/"
    assert caught.value.what.startswith(f"{place}: the answer is not the store's (HTTP 200, ")
    assert "a proxy or a login page" in caught.value.what
    assert len(proxy.requests) > 1


def account_sas(key: str = KEY, *, hours: int = 1) -> str:
    kinds = ResourceTypes(service=True, file_system=True, object=True)
    allowed = AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True)
    ends = datetime.now(UTC) + timedelta(hours=hours)
    return generate_account_sas(ACCOUNT, key, kinds, allowed, ends)


@pytest.mark.parametrize(
    ("credentials", "shown", "advice"),
    [
        ({"account_key": OTHER_KEY}, "the account key (403 AuthenticationFailed)", "check the key"),
        ({"sas_token": account_sas(OTHER_KEY)}, "the SAS (valid until 2", "not expired"),
        ({"sas_token": account_sas(hours=-1)}, "the SAS (valid until 2", "not expired"),
        ({"anon": True}, "a request without credentials (401 NoAuth", "give a key, a SAS"),
    ],
    ids=["wrong key", "wrong SAS", "expired SAS", "none"],
)
def test_credentials_that_are_refused_are_named(
    url: str, options: dict[str, Any], credentials: dict[str, Any], shown: str, advice: str
):
    given = {"endpoint": options["endpoint"], **credentials}
    with pytest.raises(StoreRefusedError) as caught:
        ray_committer.commit_job(url, "job_1", storage_options=given)
    assert f"{CONTAINER}@{ACCOUNT}: the account {ACCOUNT} refuses {shown}" in caught.value.what
    assert advice in caught.value.advice
    assert "namespace" not in str(caught.value)


def test_credentials_that_are_refused_later_are_named(
    dfs: DfsServer, url: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    store = opened(url, options)
    monkeypatch.setattr(dfs.account, "key", OTHER_KEY)  # it was replaced
    with pytest.raises(CredentialsRefusedError, match=f"{ACCOUNT} refuses the account key") as caught:
        store.get_status("/d/a")
    assert caught.value.filename == "/d/a"


@pytest.fixture
def tokens(dfs: DfsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    """Issues the managed identity's tokens, of which the account accepts the last."""
    server = TokenServer()
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi")
    monkeypatch.setenv("IDENTITY_HEADER", "header")
    monkeypatch.setattr(dfs.account, "is_token", lambda text: server.is_valid(f"Bearer {text}"))
    yield server
    server.stop()


CREDENTIALS: dict[str, Callable[[], dict[str, Any]]] = {
    "identity": lambda: {"credential": AzureIdentity("ManagedIdentityCredential", {})},
    "object": lambda: {"credential": ManagedIdentityCredential()},
    "chain": lambda: {"credential": DefaultAzureCredential()},
    "adlfs' own": dict,
}
ANSWERED_BY_LOGIN = {name: CREDENTIALS[name] for name in ("identity", "object")}


def bearer(dfs: DfsServer, kind: str) -> dict[str, Any]:
    return {"account_name": ACCOUNT, "endpoint": dfs.url, **CREDENTIALS[kind]()}


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_token_that_was_revoked_is_replaced_once(
    dfs: DfsServer, url: str, tokens: TokenServer, kind: str
):
    store = opened(url, bearer(dfs, kind))
    put_file(store, "/d/a", b"1")
    tokens.revoke()
    before = tokens.issued
    dfs.calls.clear()
    store.rename("/d/a", "/d/b")
    assert dfs.calls["rename"] == 2
    assert store.read("/d/b") == b"1"
    assert tokens.issued == before + 1


def test_many_threads_replace_a_token_once(dfs: DfsServer, url: str, tokens: TokenServer):
    store = opened(url, bearer(dfs, "object"))
    put_file(store, "/d/a", b"1")
    tokens.revoke()
    before = tokens.issued
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: store.read("/d/a"), range(64))) == {b"1"}
    assert tokens.issued == before + 1


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_new_token_that_is_refused_too_is_an_error_that_says_so(
    dfs: DfsServer, url: str, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch, kind: str
):
    store = opened(url, bearer(dfs, kind))
    put_file(store, "/d/a", b"1")
    monkeypatch.setattr(dfs.account, "is_token", lambda _: False)
    dfs.calls.clear()
    text = rf"the account {ACCOUNT} refuses the token \(401 InvalidAuthenticationInfo\)"
    with pytest.raises(CredentialsRefusedError, match=text):
        store.rename("/d/a", "/d/b")
    assert dfs.calls["rename"] == 2


def test_a_token_that_is_refused_at_once_is_named(
    dfs: DfsServer, url: str, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dfs.account, "is_token", lambda _: False)
    with pytest.raises(StoreRefusedError, match=f"the account {ACCOUNT} refuses the token") as caught:
        opened(url, bearer(dfs, "identity"))
    assert caught.value.advice == "check the identity, and the tenant of the account"


@pytest.mark.parametrize("page", [PAGE, b"", b'{"access', b"[]"])
@pytest.mark.parametrize("kind", ANSWERED_BY_LOGIN)
def test_a_login_page_in_place_of_the_token_is_no_answer(
    dfs: DfsServer, url: str, tokens: TokenServer, kind: str, page: bytes
):
    tokens.bodies = [page]
    store = opened(url, bearer(dfs, kind))  # it is asked again
    tokens.revoke()
    tokens.bodies = [page]
    with pytest.raises(StoreUnavailableError, match="no token was issued"):
        store.list_status("/")
    assert store.list_status("/") == []


def test_an_option_that_does_not_exist_is_refused_by_name(url: str, options: dict[str, Any]):
    with pytest.raises(SettingsError) as caught:
        opened(url, {**options, "acount_key": "very-secret"})
    host = f"{ACCOUNT}.dfs.core.windows.net"
    assert caught.value.what == f"abfs://{CONTAINER}@{host}: 'acount_key' is not a storage option"
    assert caught.value.advice.startswith("did you mean account_key? the storage options here are acc")
    assert "very-secret" not in str(caught.value)


def test_options_of_an_identity_are_known(dfs: DfsServer, url: str, tokens: TokenServer):
    """adlfs passes them on to the identity."""
    options = {**bearer(dfs, "adlfs' own"), "exclude_environment_credential": True}
    assert opened(url, options).list_status("/") == []


def write_and_commit(url: str, options: dict[str, Any]) -> None:
    ray_committer.setup_job(url, "job_1", storage_options=options)
    with (
        ray_committer.task_attempt(url, "job_1", 0, storage_options=options) as attempt,
        attempt.open("p=1/a") as file,
    ):
        file.write(b"1")
    assert ray_committer.commit_job(url, "job_1", storage_options=options).moved == 1
    path = url.partition(".net")[2]
    assert opened(url, options).read(f"{path}/p=1/a") == b"1"


@pytest.mark.parametrize("credentials", [{"account_key": KEY}, {"sas_token": account_sas()}, None])
def test_files_of_tasks_are_written_as_the_commit_writes(
    dfs: DfsServer,
    url: str,
    tokens: TokenServer,
    options: dict[str, Any],
    credentials: dict[str, Any] | None,
):
    """Not by the blob service, which takes a token only by https."""
    own = {"endpoint": options["endpoint"], **credentials} if credentials else bearer(dfs, "identity")
    write_and_commit(url, own)
    assert dfs.calls["blob"] == 0


def test_a_reader_needs_https_for_a_token(dfs: DfsServer, url: str, tokens: TokenServer):
    spec, path = resolve_destination(url, bearer(dfs, "identity"))
    with pytest.raises(StoreRefusedError, match="sends a token only by https"):
        open_input(spec, path)
