"""Answers over HTTP that are not WebHDFS's, and options that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import CommitStateUnknownError, SettingsError, StoreUnavailableError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import destination_url, open_store
from ray_committer.testing import visible_files
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.hdfs import HdfsServer
from tests.servers.pages import every_page, page_fault
from tests.servers.proxy import Fault, Harm, Proxy, Request

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(120)]

REQUESTS: dict[str, Callable[[StoreOperations, str], object]] = {
    "status": lambda store, root: store.get_status(f"{root}/a"),
    "list": lambda store, root: store.list_status(root),
    "list all": lambda store, root: store.list_files(root),
    "write": lambda store, root: store.write(f"{root}/c", b"2"),
    "make a directory": lambda store, root: store.mkdirs(f"{root}/d"),
    "delete": lambda store, root: store.delete_file(f"{root}/a"),
    "delete all": lambda store, root: store.delete_directory(root),
    "remove": lambda store, root: store.remove_empty_directory(root),
}


@pytest.fixture
def proxy(server: HdfsServer) -> Iterator[Proxy]:
    proxy = Proxy(server.http_url).start()
    yield proxy
    proxy.stop()


@pytest.fixture
def web(proxy: Proxy) -> StoreSpec:
    return StoreSpec("webhdfs", proxy.url.removeprefix("http://"))


@every_page
@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_that_is_not_webhdfss_is_no_answer(
    proxy: Proxy, web: StoreSpec, directory: str, page: str, name: str
):
    store = open_store(web)
    store.mkdirs(directory)
    store.write(f"{directory}/a", b"1")
    with proxy.faulty(page_fault(page)), pytest.raises(StoreUnavailableError) as caught:
        REQUESTS[name](store, directory)
    assert "is not the store's" in str(caught.value)
    assert "login page" in str(caught.value)
    assert store.read(f"{directory}/a") == b"1"


@pytest.mark.parametrize("page", ["login page", "page of no kind", "half", "other JSON", "not UTF-8"])
def test_a_rename_that_another_server_answers_is_not_done(
    proxy: Proxy, web: StoreSpec, directory: str, page: str
):
    """The NameNode's own answer has no body, so an empty one tells nothing."""
    store = open_store(web)
    store.mkdirs(directory)
    store.write(f"{directory}/a", b"1")
    with proxy.faulty(page_fault(page)), pytest.raises(StoreUnavailableError):
        store.rename(f"{directory}/a", f"{directory}/b")
    assert store.read(f"{directory}/a") == b"1"


@pytest.mark.parametrize("name", [*REQUESTS, "rename"])
def test_a_network_that_leads_to_its_login_page_has_not_answered(
    proxy: Proxy, web: StoreSpec, directory: str, name: str
):
    """It redirects, as the NameNode itself does for the content of a file alone."""
    store = open_store(web)
    store.mkdirs(directory)
    store.write(f"{directory}/a", b"1")
    login = Fault(Harm.REFUSE, status=302, headers={"Location": f"{proxy.url}/login"})
    requests = {**REQUESTS, "rename": lambda store, root: store.rename(f"{root}/a", f"{root}/b")}
    page = page_fault("login page", lambda request: request.path == "/login")
    with proxy.faulty(page, login), pytest.raises(StoreUnavailableError, match="login page"):
        requests[name](store, directory)
    assert store.read(f"{directory}/a") == b"1"


@every_page
def test_a_commit_goes_on_when_the_login_page_is_gone(
    proxy: Proxy, web: StoreSpec, directory: str, page: str
):
    store = open_store(web)
    job, tasks = new_job_attempt(directory, "job_1", 0), tasks_of(12, tasks=2)
    write_job(store, job, tasks)

    def is_data(request: Request) -> bool:
        return "op=RENAME" in request.path and page != "nothing" and "/part" in request.path

    with proxy.faulty(page_fault(page, is_data, times=3), page_fault(page, is_look, times=3)):
        report = ray_committer.commit_job(destination_url(web, directory), "job_1")
    assert report.outcome is Outcome.COMMITTED
    assert proxy.counts[Harm.REFUSE] == (3 if page == "nothing" else 6)
    assert visible_files(store, directory) == all_of(tasks)


def is_look(request: Request) -> bool:
    return request.method == "GET" and "op=OPEN" not in request.path


def test_a_commit_that_meets_only_a_login_page_names_it_and_the_address(proxy: Proxy, web: StoreSpec):
    with proxy.faulty(page_fault("login page")), pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(
            f"webhdfs://{web.authority}/t", "job_1", options=CommitOptions(retry_seconds=1)
        )
    assert f"webhdfs://{web.authority}/t/_temporary: the answer is not the store" in caught.value.what
    assert "a proxy or a login page" in caught.value.what
    assert len(proxy.requests) > 1


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
@pytest.mark.parametrize(("name", "meant"), [("usr", "user"), ("webhdfs-url", "webhdfs_url")])
def test_an_option_that_does_not_exist_is_refused_by_name(
    server: HdfsServer, scheme: str, name: str, meant: str
):
    with pytest.raises(SettingsError) as caught:
        open_store(StoreSpec(scheme, server.authority, {name: "very-secret"}))
    assert caught.value.what == f"{scheme}://{server.authority}: '{name}' is not a storage option"
    assert caught.value.advice.startswith(f"did you mean {meant}? the storage options here are d")
    assert "very-secret" not in str(caught.value)


def test_any_setting_of_hadoop_is_known(server: HdfsServer):
    spec = StoreSpec("hdfs", server.authority, {"dfs.client.use.datanode.hostname": "true"})
    assert open_store(spec).get_status("/") is not None
