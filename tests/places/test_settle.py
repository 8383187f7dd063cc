"""Requests that must not be made twice blindly: no answer, an answer that was lost, and failures."""

from __future__ import annotations

from itertools import count

import pytest

from ray_committer.errors import StoreUnavailableError
from ray_committer.limits.settle import ATTEMPTS, settle
from ray_committer.options import CommitOptions
from ray_committer.places.choose import own_files_of
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from tests.servers.fake_s3 import FakeS3Store

pytestmark = pytest.mark.usefixtures("no_pauses")


class Lossy:
    """Loses the requests, or the answers, of the first `calls` calls of one operation."""

    def __init__(self, operation: str, calls: int, *, dest: str = "") -> None:
        self.operation, self.left, self.dest = operation, calls, dest

    def __call__(self, call: StoreCall) -> None:
        if call.operation == self.operation and self.dest in call.paths[-1] and self.left:
            self.left -= 1
            raise StoreUnavailableError(call.paths[0], "lost")


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("calls", [0, 1, ATTEMPTS - 1])
def test_a_file_of_the_job_is_put_in_place_once(where: str, calls: int):
    memory = MemoryStore()
    store = WrappedStore(memory, **{where: Lossy("replace", calls)})
    own_files_of(store).put("/final", b"new", temporary="/tmp")
    assert memory.files() == {"/final": b"new"}


def test_a_store_that_stays_silent_is_given_up():
    memory = MemoryStore()
    with pytest.raises(StoreUnavailableError):
        own_files_of(WrappedStore(memory, before=Lossy("replace", ATTEMPTS))).put(
            "/final", b"new", temporary="/tmp"
        )
    assert memory.files() == {"/tmp": b"new"}


def test_any_other_error_passes_at_once():
    tries = []

    def request() -> None:
        tries.append(1)
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError):
        settle(request)
    assert len(tries) == 1


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    ("operation", "end"),
    [
        ("advance", "declared"),
        ("advance", "recorded"),
        ("advance", "committed"),
        ("replace", "_SUCCESS"),
        ("move_directory", "/frozen"),
        ("move_directory", "/_temporary/.gone-"),
    ],
)
@pytest.mark.parametrize("real_directories", [False, True])
def test_the_moments_that_decide_survive_a_lost_answer(
    where: str, operation: str, end: str, real_directories: bool
):
    memory = MemoryStore(real_directories=real_directories)
    job = new_job_attempt("/table", "job_1", 0)
    write_job(memory, job, {0: {"a": b"1"}})
    lossy = Lossy(operation, 3, dest=end)
    run_commit(WrappedStore(memory, **{where: lossy}), job, CommitOptions())
    if real_directories or operation != "move_directory":
        assert lossy.left in ((0,) if where == "before" else (0, 1, 2))
    assert visible_files(memory, "/table") == {"a": b"1"}
    assert memory.get_status(job.success) is not None
    assert memory.get_status(job.temporary) is None


def test_a_replacement_that_was_made_and_then_refused_is_known():
    memory = MemoryStore()

    def gone(call: StoreCall) -> None:
        if call.operation == "replace":  # made twice, as after a refusal that came too late
            raise FileNotFoundError(call.paths[0])

    own_files_of(WrappedStore(memory, after=gone)).put("/final", b"new", temporary="/tmp")
    assert memory.files() == {"/final": b"new"}
    with pytest.raises(FileNotFoundError):
        own_files_of(WrappedStore(memory, before=gone)).put("/final", b"newer", temporary="/tmp")


def test_of_two_that_put_a_file_at_once_where_nothing_is_renamed_the_last_one_stands():
    store, others = FakeS3Store(), iter((b"a", b"b"))

    def hook(call: StoreCall) -> None:
        if call.operation == "advance" and (data := next(others, None)) is not None:
            store.write("/f", data)

    own_files_of(WrappedStore(store, before=hook)).put("/f", b"own", temporary="/tmp")
    assert store.read("/f") == b"own"
    numbers = count()

    def each_time(call: StoreCall) -> None:
        if call.operation == "advance":
            store.write("/f", b"%d" % next(numbers))

    with pytest.raises(FileExistsError):
        own_files_of(WrappedStore(store, before=each_time)).put("/f", b"own", temporary="/tmp")
    assert store.read("/f") == b"%d" % ATTEMPTS
