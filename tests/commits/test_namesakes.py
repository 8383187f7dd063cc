"""An overwrite lets an old file give way to a new one of its name, and nothing else that has that name.

Where the store has versions the replacement is bound to the one that was recorded, so that holds
also for what comes between the last look and the request.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from ray_committer.errors import CommitConflictError, CommitStateUnknownError
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import new_job_attempt, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages import rename_files
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.stages.support import KINDS_OF_TABLES, context, do_at

FIRST = new_job_attempt("/table", "job_1", 0)
LATER = new_job_attempt("/table", "job_2", 0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
NEW = {"p=1/a": b"new", "p=1/b": b"22"}

VERSIONED: dict[str, Callable[[], MemoryStore]] = {
    "etags": lambda: MemoryStore(identity=Identity.ETAG, listing_is_cheap=False),
    "generations": lambda: MemoryStore(
        identity=Identity.GENERATION, real_directories=False, listing_is_cheap=False
    ),
}
versioned = pytest.mark.parametrize("new_store", VERSIONED.values(), ids=VERSIONED)


@pytest.fixture(autouse=True)
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename_files, "ATTEMPTS", 2)


def with_an_old_file(new_store: Callable[[], MemoryStore]) -> MemoryStore:
    """A table with a file whose name the first job writes again."""
    store = new_store()
    put_file(store, "/table/p=1/a", b"old")
    write_job(store, FIRST, {0: NEW}, mode=ConflictMode.OVERWRITE)
    return store


@versioned
@pytest.mark.parametrize("data", [b"of another program", b"old"])
def test_what_another_program_writes_just_before_a_replacement_stays(new_store, data: bytes):
    store = with_an_old_file(new_store)
    overtaken = do_at("replace", lambda: store.write("/table/p=1/a", data), "/a")
    with pytest.raises(CommitConflictError, match="nothing was overwritten"):
        run_commit(WrappedStore(store, before=overtaken), FIRST, OVERWRITE)
    assert visible_files(store, "/table") == {"p=1/a": data, "p=1/b": b"22"}
    with pytest.raises(CommitConflictError, match="nothing was overwritten"):
        run_commit(store, FIRST, OVERWRITE)
    store.rename("/table/p=1/a", "/elsewhere")  # as the error asks for
    assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == NEW
    assert store.read("/elsewhere") == data


@versioned
@pytest.mark.parametrize("is_put_back", [False, True], ids=["moved", "put back"])
def test_a_committer_that_slept_before_a_replacement_leaves_the_file_of_a_later_job(
    new_store, *, is_put_back: bool
):
    """It was thought dead, and another one has ended the job. Even if a person then takes the job's file
    back to where its task had written it, with its etag, it does not take the place of a later one."""
    store = with_an_old_file(new_store)
    (source,) = [one.path for one in store.list_files(FIRST.tasks) if one.name == "a"]

    def others() -> None:
        assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED
        if is_put_back:
            store.mkdirs(parent(source))
            store.rename("/table/p=1/a", source)
        write_job(store, LATER, {0: {"p=1/a": b"of a later job"}}, mode=ConflictMode.OVERWRITE)
        assert run_commit(store, LATER, OVERWRITE).outcome is Outcome.COMMITTED

    sleeper = context(WrappedStore(store, before=do_at("replace", others, "/a")), OVERWRITE, job=FIRST)
    with pytest.raises(CommitStateUnknownError, match="was ended by another process"):
        commit_job(sleeper, read_job(store, FIRST))
    assert visible_files(store, "/table") == {"p=1/a": b"of a later job"}


NAMESAKES = ("/table/p=1/a", "/table/p=2/c")


def at_namesakes(store: StoreOperations, refuse: Callable[[str], BaseException]) -> StoreOperations:
    """The store, but requests that put new files into these places end with an error."""

    def act(call: StoreCall) -> None:
        if call.operation in ("rename", "replace", "publish") and call.paths[-1] in NAMESAKES:
            raise refuse(call.paths[-1])

    return WrappedStore(store, before=act)


def not_permitted(path: str) -> PermissionError:
    return PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)


@pytest.mark.parametrize("dies", [False, True], ids=["at once", "taken over"])
@pytest.mark.parametrize("new_store", KINDS_OF_TABLES.values(), ids=KINDS_OF_TABLES)
def test_old_files_that_cannot_give_way_are_all_named_and_everything_else_is_done(
    new_store, *, dies: bool
):
    store = new_store()
    for name in ("p=1/a", "p=1/b", "p=2/c", "p=2/d"):
        put_file(store, f"/table/{name}", b"old")
    write_job(store, FIRST, {0: {**NEW, "p=2/c": b"new"}}, mode=ConflictMode.OVERWRITE)
    if dies:
        with pytest.raises(SimulatedCrash):
            run_commit(at_namesakes(store, SimulatedCrash), FIRST, OVERWRITE)
    with pytest.raises(CommitStateUnknownError, match="2 old files could not be removed") as caught:
        run_commit(at_namesakes(store, not_permitted), FIRST, OVERWRITE)
    for path in NAMESAKES:
        assert f"{path}: Operation not permitted" in caught.value.what
    assert visible_files(store, "/table") == {"p=1/a": b"old", "p=1/b": b"22", "p=2/c": b"old"}
    assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {**NEW, "p=2/c": b"new"}
