"""Where a directory may hold only so many names, the files of a job must fit in before its record."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace

import pytest

from ray_committer.errors import PreflightError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore, run_commit, visible_files, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, requests, state_of

LIMIT = 6
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


class Bounded(MemoryStore):
    """A directory of output holds at most `LIMIT` names, as HDFS's hold 1,048,576."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, max_directory_items=LIMIT)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        if "/_" not in dest and len(self.list_status(parent(dest))) >= LIMIT:
            raise OSError(errno.EIO, "too many names", dest)
        super().rename(source, dest, version)


def with_old(store: MemoryStore, **held: int) -> MemoryStore:
    """A store with so many files in some directories of the table."""
    for name, count in held.items():
        for number in range(count):
            put_file(store, f"/table/{name}/old-{number}", b"old")
    return store


def with_job(store: MemoryStore, *names: str) -> MemoryStore:
    write_job(store, JOB, {task: {name: b"new"} for task, name in enumerate(names)})
    return store


def refused(store: MemoryStore, options: CommitOptions | None = None) -> str:
    before = visible_files(store, "/table")
    with pytest.raises(PreflightError) as caught:
        run_commit(store, JOB, options)
    assert visible_files(store, "/table") == before
    assert state_of(store).phase is Phase.OPEN
    return str(caught.value)


def test_all_directories_without_room_are_named_at_once():
    store = with_old(Bounded(), a=LIMIT - 1, b=LIMIT, c=LIMIT - 1)
    text = refused(with_job(store, "a/1", "a/2", "b/1", "c/1"))
    assert text.startswith(
        f"memory://test/table/a: holds {LIMIT - 1} names and gets 2 more | "
        f"memory://test/table/b: holds {LIMIT} names and gets 1 more, but the store allows {LIMIT} in a "
        "directory; nothing was changed"
    )
    assert "/table/c" not in text


def test_the_last_place_of_a_directory_is_taken():
    store = with_job(with_old(Bounded(), a=LIMIT - 2), "a/1", "a/2", "b/1")
    run_commit(store, JOB)
    assert len(visible_files(store, "/table")) == LIMIT + 1


def test_names_that_are_there_are_reported_as_well():
    store = with_job(with_old(Bounded(), a=LIMIT), "a/1", "a/old-0")
    text = refused(store)
    assert f"holds {LIMIT} names and gets 2 more" in text
    assert ". Also: memory://test/table/a/old-0: is there already" in text


def test_old_files_need_their_places_until_the_new_ones_are_in_theirs():
    store = with_job(with_old(Bounded(), a=LIMIT - 1), "a/1", "a/2")
    assert f"/table/a: holds {LIMIT - 1} names and gets 2 more" in refused(store, OVERWRITE)


def test_a_file_that_takes_the_place_of_an_old_one_needs_no_other():
    store = with_job(with_old(Bounded(), a=LIMIT - 1), "a/1", "a/old-0", "a/old-1")
    run_commit(store, JOB, OVERWRITE)
    assert set(visible_files(store, "/table")) == {"a/1", "a/old-0", "a/old-1"}


def test_a_directory_that_holds_more_shows_that_the_store_allows_more():
    store = with_job(with_old(MemoryStore(), a=LIMIT + 1), "a/1")
    store.capabilities = replace(store.capabilities, max_directory_items=LIMIT)
    run_commit(store, JOB)
    assert len(visible_files(store, "/table")) == LIMIT + 2


@pytest.mark.parametrize("options", [None, OVERWRITE])
def test_an_empty_directory_has_room_for_so_many_files_only(options: CommitOptions | None):
    def files_in_a(count: int) -> MemoryStore:
        return with_job(with_old(Bounded(), b=1), *(f"a/{number}" for number in range(count)))

    run_commit(files_in_a(LIMIT), JOB, options)
    text = refused(files_in_a(LIMIT + 1), options)
    assert f"/table/a: holds 0 names and gets {LIMIT + 1} more" in text


@pytest.mark.parametrize("held", [0, LIMIT - 2])
def test_the_look_makes_no_request(held: int):
    def cost(store: MemoryStore) -> Counter[str]:
        with_job(with_old(store, a=held), "a/1", "a/2", "b/1")
        return requests(store, lambda one: run_commit(one, JOB))

    assert cost(Bounded()) == cost(MemoryStore())
