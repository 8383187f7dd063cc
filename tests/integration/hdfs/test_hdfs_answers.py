"""What HDFS answers to what goes wrong, and what its clients make of an answer that does not come."""

from __future__ import annotations

import errno
import time

import pytest

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.protocol.paths import GONE_PREFIX, new_job_attempt
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import FileStatus, StoreOperations, StoreSpec
from ray_committer.stores.hdfs.store import HdfsStore
from ray_committer.stores.hdfs.webhdfs import WebHdfsStore
from ray_committer.stores.http import HttpClient
from ray_committer.stores.registry import open_store
from ray_committer.testing import StoreCall, WrappedStore, run_commit, visible_files
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.hdfs import HdfsServer
from tests.servers.hdfs_gate import HdfsGate

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(120)]

DEADLINE_SECONDS = 1.0


@pytest.mark.parametrize(
    ("source", "dest", "error"),
    [
        ("a", "b", FileExistsError),
        ("a", "a", FileExistsError),
        ("a", "d", FileExistsError),
        ("a", "missing/b", FileNotFoundError),
        ("a", "b/c", NotADirectoryError),
        ("missing", "c", FileNotFoundError),
        ("b/missing", "c", FileNotFoundError),
    ],
)
def test_a_rename_that_cannot_be_says_why(
    store: StoreOperations, root: str, source: str, dest: str, error: type[OSError]
):
    store.write(f"{root}/a", b"new")
    store.write(f"{root}/b", b"old")
    store.mkdirs(f"{root}/d")
    before = [*store.list_status(root), *store.list_status(f"{root}/d")]
    with pytest.raises(error) as caught:
        store.rename(f"{root}/{source}", f"{root}/{dest}")
    assert type(caught.value) is error
    assert caught.value.filename == f"{root}/{source}"
    assert [*store.list_status(root), *store.list_status(f"{root}/d")] == before


@pytest.mark.parametrize(
    ("source", "dest", "error"),
    [
        ("d", "a", FileExistsError),
        ("d", "d", FileExistsError),
        ("d", "e", FileExistsError),
        ("d", "full", FileExistsError),
        ("d", "full/d", FileExistsError),
        ("d", "missing/d", FileNotFoundError),
        ("d", "a/d", NotADirectoryError),
        ("d", "d/x/y", OSError),
        ("missing", "c", FileNotFoundError),
    ],
)
def test_a_directory_that_cannot_be_moved_whole_stays_and_says_why(
    store: StoreOperations, root: str, source: str, dest: str, error: type[OSError]
):
    for path in ("d/x/y", "e", "full/d"):
        store.mkdirs(f"{root}/{path}")
    for path in ("a", "d/b"):
        store.write(f"{root}/{path}", b"1")
    before = shown_below(store, root)
    with pytest.raises(error) as caught:
        store.move_whole(f"{root}/{source}", f"{root}/{dest}")
    assert type(caught.value) is error
    assert shown_below(store, root) == before


def shown_below(store: StoreOperations, path: str) -> list[FileStatus]:
    listed = store.list_status(path)
    return [
        *listed,
        *(one for each in listed if each.is_directory for one in shown_below(store, each.path)),
    ]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a:b", errno.EINVAL),
        ("n" * 256, errno.ENAMETOOLONG),
        ("é" * 128, errno.ENAMETOOLONG),
        ("/".join(["n" * 199] * 41), errno.ENAMETOOLONG),
    ],
    ids=["colon", "256 letters", "256 bytes", "8,200 bytes"],
)
def test_names_that_hdfs_does_not_have_are_an_error(
    store: StoreOperations, root: str, name: str, number: int
):
    store.write(f"{root}/a", b"1")
    with pytest.raises(OSError) as caught:
        store.rename(f"{root}/a", f"{root}/{name}")
    assert caught.value.errno == number
    assert store.read(f"{root}/a") == b"1"


def test_a_file_is_no_directory(store: StoreOperations, root: str):
    """HDFS itself lists a file as its only entry, and deletes it where an empty directory is meant."""
    store.write(f"{root}/a", b"1")
    for request in (store.list_status, store.remove_empty_directory):
        with pytest.raises(NotADirectoryError):
            request(f"{root}/a")
    with pytest.raises(IsADirectoryError):
        store.read(root)
    assert store.list_files(f"{root}/a") == []
    assert store.get_status(f"{root}/a/b") is None
    assert store.read(f"{root}/a") == b"1"


def test_a_directory_is_no_file(store: StoreOperations, root: str):
    store.mkdirs(f"{root}/d")
    store.write(f"{root}/d/a", b"1")
    with pytest.raises(OSError) as caught:
        store.delete_file(f"{root}/d")
    assert caught.value.errno == errno.ENOTEMPTY
    assert store.read(f"{root}/d/a") == b"1"


def test_a_file_is_written_only_where_its_directory_is(store: StoreOperations, root: str):
    with pytest.raises(FileNotFoundError):
        store.write(f"{root}/missing/a", b"1")
    assert store.list_status(root) == []


def test_a_plain_name_is_kept_as_well(store: StoreOperations):
    root = "/tests/plain"
    assert store.delete_directory(root) in (True, False)
    store.mkdirs(root)
    store.write(f"{root}/a", b"1" * 100_000)
    assert store.read(f"{root}/a") == b"1" * 100_000


def test_many_files_are_listed(store: StoreOperations, root: str):
    """A listing comes in several answers of a thousand names each."""
    names = {f"{root}/{number:04d}" for number in range(2_100)}
    for name in names:
        store.mkdirs(name)
    assert {status.path for status in store.list_status(root)} == names


@pytest.mark.parametrize("way", ["rpc", "web"])
def test_permissions_are_kept_by_both_ways(
    server: HdfsServer, directory: str, way: str, monkeypatch: pytest.MonkeyPatch
):
    owner = open_store(StoreSpec("hdfs", server.authority, {"fs.permissions.umask-mode": "027"}))
    owner.mkdirs(directory)
    owner.write(f"{directory}/a", b"1")
    if way == "rpc":
        monkeypatch.setenv("HADOOP_USER_NAME", "alice")
        other = open_store(StoreSpec("hdfs", server.authority))
    else:
        authority = server.http_url.removeprefix("http://")
        other = open_store(StoreSpec("webhdfs", authority, {"user": "alice"}))
    with pytest.raises(PermissionError, match="user=alice"):
        other.get_status(f"{directory}/a")
    with pytest.raises(PermissionError, match="user=alice"):
        other.rename(f"{directory}/a", f"{directory}/b")
    assert owner.read(f"{directory}/a") == b"1"


@pytest.mark.parametrize("way", ["rpc", "web"])
def test_a_namenode_that_says_nothing_is_not_waited_for(
    server: HdfsServer, rpc: StoreSpec, web: StoreSpec, way: str
):
    client = HttpClient(deadline_seconds=DEADLINE_SECONDS)
    store: StoreOperations = (
        HdfsStore(rpc, deadline_seconds=DEADLINE_SECONDS)
        if way == "rpc"
        else WebHdfsStore(web, client=client)
    )
    assert store.get_status("/") is not None
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer within 1 s"):
            store.rename("/a", "/b")
        assert time.monotonic() - started < 5 * DEADLINE_SECONDS
    finally:
        server.resume()
    assert store.get_status("/") is not None


@pytest.mark.parametrize("way", ["rpc", "web"])
def test_nobody_at_the_address_is_no_answer(way: str):
    store = open_store(StoreSpec("hdfs" if way == "rpc" else "webhdfs", "127.0.0.1:1"))
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        store.rename("/a", "/b")
    assert time.monotonic() - started < 10.0


def test_another_server_than_webhdfs_is_never_taken_for_an_empty_one(server: HdfsServer):
    spec = StoreSpec("hdfs", server.authority, {"webhdfs_url": f"{server.http_url}/elsewhere"})
    with pytest.raises(OSError, match="is not WebHDFS; check its address") as caught:
        open_store(spec).get_status("/")
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_url_without_a_namenode_is_refused():
    with pytest.raises(StoreRefusedError, match="hdfs://host:port"):
        open_store(StoreSpec("hdfs"))


def test_a_host_without_a_port_has_the_usual_one():
    store = open_store(StoreSpec("hdfs", "namenode.invalid"))
    with pytest.raises(StoreUnavailableError, match="lookup"):
        store.get_status("/")


@pytest.mark.parametrize("move", ["rename", "replace"])
def test_a_lost_answer_is_none_that_says_that_nothing_was_done(
    gate: HdfsGate, rpc: StoreSpec, directory: str, move: str
):
    """Whether the client asks again by itself, which the next version of it may do, or not."""
    store = open_store(rpc)
    store.mkdirs(directory)
    store.write(f"{directory}/a", b"1")
    gate.lose_answer("rename2")
    unknown = (StoreUnavailableError, FileNotFoundError) if move == "rename" else StoreUnavailableError
    with pytest.raises(unknown):
        getattr(store, move)(f"{directory}/a", f"{directory}/b")
    assert store.get_status(f"{directory}/a") is None
    assert store.read(f"{directory}/b") == b"1"


def test_a_directory_whose_answer_is_lost_is_moved_whole(gate: HdfsGate, rpc: StoreSpec, directory: str):
    store = open_store(rpc)
    store.mkdirs(f"{directory}/d/e")
    store.write(f"{directory}/d/a", b"1")
    gate.lose_answer("rename2")
    with pytest.raises((StoreUnavailableError, FileNotFoundError)):
        store.move_whole(f"{directory}/d", f"{directory}/p")
    assert store.get_status(f"{directory}/d") is None
    assert {one.path for one in shown_below(store, directory)} == {
        f"{directory}/{name}" for name in ("p", "p/a", "p/e")
    }


def test_a_source_that_is_gone_may_have_been_put_in_place(store: StoreOperations, root: str):
    with pytest.raises(StoreUnavailableError, match="is not found"):
        store.replace(f"{root}/missing", f"{root}/b")


def step_of(call: StoreCall) -> str | None:
    """What a rename of a commit is for; None if the request is none."""
    match call.operation:
        case "advance":
            return call.paths[1].partition(".")[0]
        case "move_directory":
            return "taken away" if GONE_PREFIX in call.paths[1] else call.paths[1]
        case "rename" | "replace":
            return call.paths[1]
    return None


def test_a_commit_whose_answers_are_lost_on_the_way_ends(gate: HdfsGate, rpc: StoreSpec, directory: str):
    """Each rename that decides something is done, and nothing says so."""
    store = open_store(rpc)
    job = new_job_attempt(directory, "job_1", 0)
    tasks = tasks_of(12, tasks=2)
    write_job(store, job, tasks)
    data = f"{directory}/{next(iter(tasks[1]))}"
    decided = {Phase.DECLARED, Phase.RECORDED, Phase.COMMITTED}
    left = {job.frozen, *decided, data, job.success, "taken away"}

    def lose(call: StoreCall) -> None:
        step = step_of(call)
        if step in left:
            left.remove(step)
            gate.lose_answer("rename2")

    lost = gate.lost
    report = run_commit(WrappedStore(store, before=lose), job)
    assert not left
    assert gate.lost - lost == 7
    assert (report.moved, report.proved) == (11, {Proof.MODIFICATION_TIME: 1})
    assert visible_files(store, directory) == all_of(tasks)
    assert store.get_status(job.temporary) is None


def test_who_may_not_take_files_out_of_a_directory_is_told_so_before(
    store: StoreOperations, web: StoreSpec, root: str
):
    """The NameNode checks the permission to delete a name before it looks whether there is one."""
    store.write(f"{root}/a", b"1")
    files = [f"{root}/a"]
    other = open_store(StoreSpec(web.scheme, web.authority, {"user": "nobody"}))
    denied = "this user has no permission to remove files from it (Permission denied: user=nobody"
    (why,) = other.what_stays(root, files, "/tests").values()
    assert why.startswith(denied)
    assert store.what_stays(root, files, "/tests") == {}
    assert store.what_stays(f"{root}/gone", [], "/tests") == {}
    assert [status.path for status in store.list_status(root)] == files
