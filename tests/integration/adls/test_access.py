"""Credentials of every kind, accounts that are refused, and that no secret is ever shown."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from azure.storage.blob import BlobServiceClient, RetentionPolicy
from azure.storage.filedatalake import AccountSasPermissions, ResourceTypes, generate_account_sas

import ray_committer
from ray_committer.errors import CommitAbortedError, StoreRefusedError, StoreUnavailableError
from ray_committer.stores.adls.connect import connect
from ray_committer.stores.adls.http import AdlsHttp
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store, open_stores, resolve_destination
from ray_committer.testing.harness import put_file
from tests.integration.adls.conftest import CONTAINER, opened
from tests.servers.azurite import ACCOUNT as FLAT_ACCOUNT
from tests.servers.azurite import Azurite
from tests.servers.dfs import ACCOUNT, KEY, DfsServer, token
from tests.servers.dfs_tree import Tree
from tests.servers.faults import Faults

pytestmark = [pytest.mark.xdist_group("adls"), pytest.mark.timeout(120)]


class Token(NamedTuple):
    token: str
    expires_on: float


class Credential:
    """A token credential as azure.identity has them; its tokens are valid for `seconds`."""

    def __init__(self, dfs: DfsServer, seconds: float = 3600.0) -> None:
        self._dfs = dfs
        self._seconds = seconds
        self.given = 0

    def get_token(self, *scopes: str, **_: Any) -> Token:
        assert scopes == ("https://storage.azure.com/.default",)
        self.given += 1
        return Token(*token(self._dfs, f"token-{self.given}", self._seconds))

    async def close(self) -> None:
        pass


class AsyncCredential(Credential):
    async def get_token(self, *scopes: str, **_: Any) -> Token:  # type: ignore[override]
        return super().get_token(*scopes)


def sas() -> str:
    return generate_account_sas(
        ACCOUNT,
        KEY,
        resource_types=ResourceTypes(service=True, file_system=True, object=True),
        permission=AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


def bearer(dfs: DfsServer, credential: Credential) -> dict[str, Any]:
    return {"account_name": ACCOUNT, "credential": credential, "endpoint": dfs.url}


def try_out(store: StoreOperations) -> None:
    """Rename, list and delete, with a name that a URL or a signature may spoil."""
    put_file(store, "/d/q=a%3A0 b&c", b"1")
    status = store.get_status("/d/q=a%3A0 b&c")
    assert status is not None
    store.rename(status.path, "/d/ü?#", status.version)
    assert [one.path for one in store.list_status("/d")] == ["/d/ü?#"]
    assert store.read("/d/ü?#") == b"1"
    assert store.delete_directory("/d")


def test_a_sas_is_enough(dfs: DfsServer, url: str):
    try_out(opened(url, {"connection_string": dfs.connection_string(sas=sas())}))


@pytest.mark.parametrize("kind", [Credential, AsyncCredential])
def test_a_token_is_enough_and_is_asked_for_once(dfs: DfsServer, url: str, kind: type[Credential]):
    credential = kind(dfs)
    try_out(opened(url, bearer(dfs, credential)))
    assert credential.given == 1


def test_a_token_that_soon_expires_is_replaced_in_time(dfs: DfsServer, url: str):
    credential = Credential(dfs, seconds=250.0)
    try_out(opened(url, bearer(dfs, credential)))
    assert credential.given > 5


def test_a_key_that_adlfs_finds_by_name_is_used(dfs: DfsServer, url: str):
    try_out(opened(url, {"account_name": ACCOUNT, "account_key": KEY, "endpoint": dfs.url}))


def test_both_forms_of_a_url_are_one_place(dfs: DfsServer, url: str, options: dict[str, Any]):
    plain = url.replace(f"@{ACCOUNT}.dfs.core.windows.net", "").replace("abfss", "abfs")
    assert plain.startswith(f"abfs://{CONTAINER}/")
    assert resolve_destination(plain, options) == resolve_destination(url, options)


def test_a_url_of_another_account_than_the_credentials_is_refused(options: dict[str, Any]):
    with pytest.raises(StoreRefusedError, match="names the account other"):
        opened(f"abfss://{CONTAINER}@other.dfs.core.windows.net/a", options)


def test_a_url_without_an_account_is_refused():
    with pytest.raises(StoreRefusedError, match="names no account"):
        opened("abfs://lake/a", {})


def test_a_token_is_not_sent_unencrypted_to_another_machine(dfs: DfsServer, url: str):
    options = {**bearer(dfs, Credential(dfs)), "endpoint": "http://lake.example/account"}
    with pytest.raises(StoreRefusedError, match="unencrypted"):
        opened(url, options)


def test_a_container_that_is_not_there_is_an_error_before_anything_is_done(options: dict[str, Any]):
    with pytest.raises(CommitAbortedError, match="no such container"):
        ray_committer.commit_job(
            f"abfss://missing@{ACCOUNT}.dfs.core.windows.net/a", storage_options=options
        )


def test_a_container_that_has_gone_is_no_file_that_is_not_there(
    dfs: DfsServer, url: str, options: dict[str, Any]
):
    store = opened(url, options)
    dfs.containers.clear()
    for look in (store.get_status, store.delete_file, store.delete_directory):
        with pytest.raises(FileNotFoundError, match="FilesystemNotFound"):
            look("/a")


QUESTIONS = ("HEAD container", "account", "acl")


@pytest.mark.parametrize("denied", range(3))
def test_a_flat_account_is_refused_whichever_question_may_be_asked(
    dfs: DfsServer, url: str, options: dict[str, Any], denied: int
):
    dfs.denied = set(QUESTIONS[:denied])
    try_out(opened(url, options))
    dfs.hierarchical = False
    dfs.calls.clear()
    open_stores.clear()  # as in another process
    for call in (ray_committer.commit_job, ray_committer.setup_job):
        with pytest.raises(StoreRefusedError, match="no hierarchical namespace"):
            call(url, "job_1", storage_options=options)
    assert set(dfs.calls) == set(QUESTIONS[: denied + 1])


def test_an_account_that_tells_nothing_is_refused(dfs: DfsServer, url: str, options: dict[str, Any]):
    dfs.denied = set(QUESTIONS)
    with pytest.raises(StoreRefusedError, match="cannot find out whether"):
        opened(url, options)


def test_a_store_is_opened_though_a_request_of_it_fails(
    dfs: DfsServer, url: str, options: dict[str, Any]
):
    dfs.faults = Faults(failed_before=0.5, hits=lambda name: name == "HEAD container")
    for _ in range(3):
        opened(url, options)


def test_a_real_flat_account_is_refused(azurite: Azurite):
    """Azurite has no DFS calls: what it says of its account is what any flat one says."""
    with pytest.raises(StoreRefusedError, match="no hierarchical namespace"):
        opened(
            f"abfss://{CONTAINER}@{FLAT_ACCOUNT}.dfs.core.windows.net/a",
            {"connection_string": azurite.connection_string},
        )


def test_soft_delete_is_told_of(azurite: Azurite):
    """Azurite keeps the blob service's settings as any account does."""
    connection = connect({"connection_string": azurite.connection_string}, FLAT_ACCOUNT, "")
    store = AdlsStore(StoreSpec("abfs"), AdlsHttp(connection, CONTAINER))
    blobs = BlobServiceClient.from_connection_string(azurite.connection_string)
    blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
    assert store.cost_warnings() == []
    blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=9))
    (warning,) = store.cost_warnings()
    assert "soft delete keeps and bills for 9 days" in warning


def test_settings_that_may_not_be_read_are_no_failure_of_the_store(
    dfs: DfsServer, url: str, options: dict[str, Any]
):
    store = opened(url, options)
    dfs.denied = {"settings"}
    with pytest.raises(PermissionError, match="403"):
        store.cost_warnings()


def test_the_doctor_says_that_there_is_no_container(options: dict[str, Any]):
    url = f"abfss://missing@{ACCOUNT}.dfs.core.windows.net/table"
    (line,) = ray_committer.doctor(url, storage_options=options).lines
    assert "there is no such container" in line.measured


def test_a_key_that_is_none_is_refused(dfs: DfsServer, url: str):
    options = {"account_name": ACCOUNT, "account_key": "no key", "endpoint": dfs.url}
    with pytest.raises(StoreRefusedError, match="is not base64") as caught:
        opened(url, options)
    assert "no key" not in str(caught.value)


@pytest.mark.parametrize("trouble", ["denied", "lost", "gone"])
def test_no_secret_is_shown(dfs: DfsServer, url: str, trouble: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "urllib3")  # the vendor's client has it write URLs at DEBUG
    secret = sas()
    options = {"connection_string": dfs.connection_string(sas=secret)}
    store = opened(url, options)
    put_file(store, "/d/a", b"1")
    signature = secret.rpartition("sig=")[2]
    match trouble:
        case "denied":
            dfs.denied = {"rename"}
        case "lost":
            dfs.faults = Faults(lost_answer=1.0)
        case "gone":
            dfs.faults = Faults(failed_before=1.0)
    with pytest.raises(OSError, match="/d/") as caught:
        store.rename("/d/a", "/d/b")
    shown = "".join(traceback.format_exception(caught.value))
    shown += caplog.text + repr(store.spec) + str(pickle.dumps(caught.value))
    assert signature not in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    "faults", [Faults(failed_before=1.0), Faults(lost_answer=1.0)], ids=["failed", "lost"]
)
def test_a_request_is_made_once(dfs: DfsServer, url: str, options: dict[str, Any], faults: Faults):
    store = opened(url, options)
    put_file(store, "/d/a", b"1")
    dfs.faults = faults
    with pytest.raises(StoreUnavailableError):
        store.rename("/d/a", "/d/b")
    assert dfs.calls["rename"] == 1


def test_no_secret_is_shown_of_an_account_that_is_not_reached(url: str):
    server = DfsServer()
    server.start()
    server.containers[CONTAINER] = Tree()
    secret = sas()
    options = {"connection_string": server.connection_string(sas=secret)}
    store = opened(url, options)
    server.stop()
    with pytest.raises(StoreUnavailableError) as caught:
        store.rename("/d/a", "/d/b")
    shown = "".join(traceback.format_exception(caught.value))
    assert secret.rpartition("sig=")[2] not in shown


def test_a_worker_opens_what_the_driver_named(dfs: DfsServer, url: str, options: dict[str, Any]):
    spec, _ = resolve_destination(url, options)
    try_out(open_store(pickle.loads(pickle.dumps(spec))))


def test_an_expired_sas_says_so(dfs: DfsServer, url: str):
    old = generate_account_sas(
        ACCOUNT,
        KEY,
        resource_types=ResourceTypes(object=True, file_system=True),
        permission=AccountSasPermissions(read=True),
        expiry=datetime.fromtimestamp(time.time() - 3600, UTC),
    )
    with pytest.raises(StoreRefusedError, match="403 AuthenticationFailed"):
        opened(url, {"connection_string": dfs.connection_string(sas=old)})
