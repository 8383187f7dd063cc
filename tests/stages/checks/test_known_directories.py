"""One page of a parent shows which directories are new; what no page shows is asked for by its path."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import TEMPORARY, new_job_attempt
from ray_committer.stages.checks.known_directories import KnownDirectories, look_at_parents
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, calls_of, context, do_at, each_of

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS, mark_success=False)
store = each_of()
TWO_LEVELS = [f"/table/p={p}/q={q}" for p in range(3) for q in range(2)]


def known(store: MemoryStore, directories: list[str]) -> tuple[KnownDirectories, Counter[str]]:
    found: list[KnownDirectories] = []
    calls = calls_of(store, lambda one: found.append(look_at_parents(context(one), directories)))
    assert all(len(call.paths) == 1 for call in calls)
    return found[0], Counter(call.operation for call in calls)


def test_a_parent_that_is_new_answers_for_all_below_it(store: MemoryStore):
    put_file(store, "/table/p=0/q=0/old", b"x")
    found, asked = known(store, TWO_LEVELS)
    assert found.new == {*TWO_LEVELS, "/table/p=1", "/table/p=2"} - {"/table/p=0/q=0"}
    assert set(found.there) == {"/table/p=0", "/table/p=0/q=0"}
    assert found.parents == {"/table": False, "/table/p=0": False}
    assert asked == {"find_names": 2}


def test_a_page_of_a_parent_shows_whether_jobs_were_set_up_there(store: MemoryStore):
    put_file(store, f"/table/p=1/{TEMPORARY}/job_9/00/state/x", b"")
    found, _ = known(store, TWO_LEVELS)
    assert found.parents == {"/table": False, "/table/p=1": True}
    assert found.unasked == set()


@pytest.mark.parametrize(
    "directories", [[], ["/table"], ["/table/p=1"], ["/elsewhere/a", "/elsewhere/b"]]
)
def test_nothing_is_asked_where_a_listing_shows_more(directories: list[str]):
    found, asked = known(MemoryStore(), directories)
    assert asked == {}
    assert found == KnownDirectories()


def test_one_directory_below_one_parent_costs_one_page_of_that_parent():
    store = MemoryStore()
    put_file(store, "/table/p=1/q=2/old", b"x")
    found, asked = known(store, ["/table/p=1/q=1"])
    assert (found.new, found.parents, asked) == (
        {"/table/p=1/q=1"},
        {"/table/p=1": False},
        {"find_names": 1},
    )
    found, _ = known(store, ["/table/p=2/q=1"])
    assert found.new == {"/table/p=2", "/table/p=2/q=1"}


def test_a_parent_with_more_names_than_a_page_leaves_all_to_their_paths():
    store = MemoryStore(page_names=3)
    for number in range(4):
        put_file(store, f"/table/other={number}/old", b"x")
    put_file(store, "/table/p=1/q=0/old", b"x")
    found, asked = known(store, TWO_LEVELS)
    assert found.unasked == set()
    assert found.new == {*TWO_LEVELS, "/table/p=0", "/table/p=2"} - {"/table/p=1/q=0"}
    assert asked == {"find_names": 4}


def test_a_file_in_the_place_of_a_parent_leaves_what_is_below_it_to_its_path():
    store = MemoryStore()
    put_file(store, "/table/p=1", b"a file")
    found, _ = known(store, TWO_LEVELS)
    assert not found.new & {"/table/p=1", "/table/p=1/q=0", "/table/p=1/q=1"}


def test_a_link_to_nothing_and_a_link_to_itself_are_not_new(tmp_path: Path):
    store, job = LocalStore(StoreSpec("file")), new_job_attempt(str(tmp_path), "job", 0)
    (tmp_path / "p=0").symlink_to(tmp_path / "nowhere")
    (tmp_path / "p=1").symlink_to("p=1")
    names = [f"{tmp_path}/p={p}/q=0" for p in range(3)]
    found = look_at_parents(context(store, job=job), names)
    assert found.new == {f"{tmp_path}/p=2", f"{tmp_path}/p=2/q=0"}
    assert look_at_parents(context(store, job=job), names[:1]).new == set()
    assert set(found.there) == set()


# What a commit does with it


def partitions(number: int, name: str) -> dict[int, dict[str, bytes]]:
    return {0: {f"p={p}/{name}": b"x" for p in range(number)}}


def test_a_new_partition_is_neither_listed_nor_asked_for_other_jobs(store: MemoryStore):
    put_file(store, "/table/p=0/old", b"x")
    write_job(store, JOB, partitions(3, "new"))
    calls = calls_of(store, lambda one: run_commit(one, JOB, CommitOptions(validate=False)))
    looks = [call for call in calls if call.operation in ("list_status", "list_page", "get_status")]
    assert [path for call in looks for path in call.paths if "/table/p=" in path] == [
        f"/table/p=0/{TEMPORARY}" if not store.capabilities.listing_is_cheap else "/table/p=0"
    ]


def test_a_directory_that_was_listed_is_not_made():
    store, results = MemoryStore(), list[CommitResult]()
    put_file(store, "/table/p=0/old", b"x")
    write_job(store, JOB, partitions(3, "new"))
    calls = calls_of(store, lambda one: results.append(run_commit(one, JOB)))
    made = [call.paths[0] for call in calls if call.operation == "mkdirs"]
    assert made == ["/table/p=1", "/table/p=2"]
    assert [result.directories for result in results] == [3]


@pytest.mark.parametrize("options", [CommitOptions(mark_success=False), OVERWRITE])
def test_a_directory_that_was_listed_and_is_gone_is_made_again(options: CommitOptions):
    store = MemoryStore()
    put_file(store, "/table/p=0/old", b"x")
    write_job(store, JOB, partitions(2, "new"), mode=options.mode)

    def remove(call: StoreCall) -> None:
        if call.operation == "rename" and store.get_status("/table/p=0/old") is not None:
            store.delete_directory("/table/p=0")

    result = run_commit(WrappedStore(store, before=remove), JOB, options)
    assert result.moved == 2
    assert store.files("/table") == {"/table/p=0/new": b"x", "/table/p=1/new": b"x"}


def test_a_partition_that_no_page_shows_is_asked_for_jobs_before_it_is_listed():
    store = MemoryStore(page_names=3)
    for number in range(4):
        put_file(store, f"/table/p=0/old-{number}", b"x")
    write_job(store, JOB, partitions(1, "new"), mode=OVERWRITE.mode)
    calls = calls_of(store, lambda one: run_commit(one, JOB, OVERWRITE))
    asked = [(call.operation, call.paths[0]) for call in calls if "/table/p=0" in call.paths[0]]
    assert asked[:3] == [
        ("list_page", "/table/p=0"),
        ("list_status", f"/table/p=0/{TEMPORARY}"),
        ("list_status", "/table/p=0"),
    ]
    assert store.files("/table") == {"/table/p=0/new": b"x"}


def test_a_job_of_a_parent_is_seen_before_a_partition_is_listed():
    store = MemoryStore()
    put_file(store, "/table/p=0/q=0/old", b"x")
    write_job(store, JOB, {0: {"p=0/q=0/new": b"x"}}, mode=OVERWRITE.mode)
    calls = calls_of(store, lambda one: run_commit(one, JOB, OVERWRITE))
    asked = [(call.operation, call.paths[0]) for call in calls if "/table/p=0" in call.paths[0]]
    assert asked[0] == ("find_names", "/table/p=0")
    assert ("list_page", "/table/p=0/q=0") in asked


def test_a_partition_that_a_page_shows_is_asked_for_once():
    store = MemoryStore()
    put_file(store, "/table/p=0/old", b"x")
    write_job(store, JOB, partitions(1, "new"), mode=OVERWRITE.mode)
    options = OVERWRITE.changed(validate=False)
    calls = calls_of(store, lambda one: run_commit(one, JOB, options))
    looks = [call for call in calls if call.operation.startswith("list") or call.operation == "mkdirs"]
    assert [call.operation for call in looks if "/table/p=0" in call.paths[0]] == ["list_page"]


def test_a_job_that_is_set_up_in_a_partition_after_the_look_is_seen_and_the_partition_listed_again():
    store, other = MemoryStore(), new_job_attempt("/table/p=0", "other", 0)
    put_file(store, "/table/p=0/old", b"x")
    write_job(store, JOB, partitions(1, "new"), mode=OVERWRITE.mode)

    def rival() -> None:
        write_job(store, other, {0: {"theirs": b"y"}})

    hook = do_at("list_page", rival)
    calls = calls_of(WrappedStore(store, before=hook), lambda one: run_commit(one, JOB, OVERWRITE))
    pages = [number for number, call in enumerate(calls) if call.operation == "list_page"]
    looks = [number for number, call in enumerate(calls) if call.paths[0] == f"/table/p=0/{TEMPORARY}"]
    assert len(pages) == 2
    assert any(pages[0] < look < pages[1] for look in looks)
