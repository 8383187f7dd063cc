"""Which directories go whole is planned from one look at the files of tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt, parent
from ray_committer.protocol.whole import BY_TIME, ByFile, WholePlan
from ray_committer.stages.bind_versions import bind_versions
from ray_committer.stages.checks import sources
from ray_committer.stages.checks.sources import look_at_sources
from ray_committer.stages.plan_moves import plan_moves, with_same_rights
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import Identity, MemoryStore, WrappedStore, write_job
from ray_committer.testing.harness import put_file, source_of
from tests.stages.support import JOB, KINDS, at, context, loaded, requests, staged_name
from tests.stores.test_rights import access_list

of_each_size = pytest.mark.usefixtures("small_and_large_jobs")

STORES: dict[str, Callable[[], MemoryStore]] = {
    "times": lambda: MemoryStore(identity=Identity.MODIFICATION_TIME),
    "etags": MemoryStore,
    "pages": lambda: MemoryStore(identity=Identity.ETAG, listing_is_cheap=False),
}
of_each_store = pytest.mark.parametrize("kind", STORES)


def written(store: StoreOperations, *tasks: Sequence[str], job: JobAttempt = JOB) -> StoreOperations:
    """A job whose tasks have written some staged files."""
    files = {n: {staged_name(name, n): b"x" for name in names} for n, names in enumerate(tasks)}
    write_job(store, job, files)
    return store


def planned(
    store: StoreOperations,
    there: Sequence[str] = (),
    *,
    missing: Sequence[str] = (),
    may_be_missing: bool = False,
    moves_here: bool = True,
    job: JobAttempt = JOB,
) -> WholePlan:
    found = context(store, job=job)
    manifests = bind_versions(found, loaded(found))
    look = look_at_sources(found, manifests, may_be_missing=may_be_missing)
    assert look.errors == ()
    plan = with_same_rights(found, plan_moves(found, look, there, moves_here=moves_here), missing)
    if plan != WholePlan():
        assert len(plan.moves) + plan.by_file.total() == found.executor.directories.plan()
    return plan


def source(name: str, task: int = 0, attempt: int = 0, job: JobAttempt = JOB) -> str:
    attempt_id = f"attempt_{job.job_id}_m_{task:06d}_{attempt}"
    return source_of(job, attempt_id, staged_name(name, task, attempt))


TASKS = (["p=1/a", "p=2/a", "root"], ["p=1/b", "p=2/b"], ["p=1/c"])


@of_each_size
@of_each_store
def test_directories_that_were_not_there_go_whole_with_the_files_of_all_tasks(kind: str):
    plan = planned(written(STORES[kind](), *TASKS), there=["/table/p=2"])
    (move,) = plan.moves
    assert join(JOB.tasks, move.source) == parent(source("p=1/a"))
    assert (move.dest, move.files, move.size, move.leftovers) == ("/table/p=1", 3, 3, ())
    assert plan.by_file == {ByFile.THERE: 1}


def test_where_nothing_moves_whole_all_leaves_are_counted():
    store = written(MemoryStore(), ["a", "p=1/a", "p=2/q=3/a", "p=2/a"])
    assert planned(store, moves_here=False).by_file == {ByFile.NOT_HERE: 2}


@pytest.mark.parametrize("kind", ["flat", "generations"])
def test_a_store_without_directories_has_none_to_move(kind: str):
    assert planned(written(KINDS[kind](), *TASKS)) == WholePlan()


def test_files_of_the_destination_itself_are_moved_one_by_one():
    plan = planned(written(MemoryStore(), ["a"], ["b"]))
    assert (len(plan.moves), plan.by_file) == (0, {})


@of_each_size
@of_each_store
@pytest.mark.parametrize(
    "name", [staged_name("late", 0, 1), ".hidden", "_under", ".orphan.crc", "other", "lost+found"]
)
def test_files_that_no_pack_names_are_to_be_deleted_before(kind: str, name: str):
    store = written(STORES[kind](), *TASKS)
    place = parent(source("p=1/a"))
    put_file(store, join(place, name), b"?")
    assert {move.dest: move.leftovers for move in planned(store).moves} == {
        "/table/p=1": (name,),
        "/table/p=2": (),
    }


@of_each_store
def test_with_as_many_leftovers_as_files_a_directory_does_not_go_whole(kind: str):
    store = written(STORES[kind](), *TASKS)
    for number in range(2):
        put_file(store, source(f"p=2/late{number}", 0, 1), b"?")
    plan = planned(store)
    assert [move.dest for move in plan.moves] == ["/table/p=1"]
    assert plan.by_file == {ByFile.ODD: 1}


def test_only_so_many_leftovers_are_held(monkeypatch: pytest.MonkeyPatch):
    store = written(MemoryStore(), *([f"p={p}/f{n}" for p in range(4)] for n in range(3)))
    for p in range(4):
        for number in range(2):
            put_file(store, source(f"p={p}/late{number}", 0, 1), b"?")
    monkeypatch.setattr(sources, "MOST_LEFTOVERS", 5)
    plan = planned(store)
    assert sum(len(move.leftovers) for move in plan.moves) == 4
    assert plan.by_file == {ByFile.ODD: 2}


@of_each_store
@pytest.mark.parametrize("name", ["directory", ".hidden", "p=3", "_under"])
def test_a_source_with_a_directory_in_it_does_not_go_whole(kind: str, name: str):
    store = written(STORES[kind](), *TASKS)
    put_file(store, join(parent(source("p=1/a")), name, "below"), b"?")
    assert planned(store).by_file == {ByFile.ODD: 1}


ODD = {
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    ".hidden link": lambda path: path.symlink_to("/etc/hostname"),
    "_hidden fifo": os.mkfifo,
}


@pytest.mark.parametrize("name", ODD)
def test_on_local_files_what_is_no_file_keeps_a_source_from_going_whole(name: str, tmp_path: Path):
    job = new_job_attempt(str(tmp_path / "table"), JOB.job_id, 0)
    store = written(LocalStore(StoreSpec("file")), *TASKS, job=job)
    assert len(planned(store, job=job).moves) == 2
    ODD[name](Path(source("p=1/a", job=job)).parent / name)
    plan = planned(store, job=job)
    assert [move.dest for move in plan.moves] == [str(tmp_path / "table/p=2")]
    assert plan.by_file == {ByFile.ODD: 1}


def test_without_times_or_etags_files_are_moved_one_by_one():
    plan = planned(written(MemoryStore(identity=Identity.SIZE_ONLY), *TASKS))
    assert plan.by_file == {ByFile.NO_PROOF: 2}


# What an earlier run has moved


def test_a_source_that_was_moved_whole_is_to_be_proved():
    store = written(STORES["times"](), *TASKS)
    there = planned(store).moves
    store.mkdirs("/table")
    store.move_whole(parent(source("p=1/a")), "/table/p=1")
    again = planned(store, may_be_missing=True)
    assert [*again.moves] == [*there]
    assert all(move.proof == BY_TIME for move in again.moves)


@of_each_store
@pytest.mark.parametrize("moved", [1, 3])
def test_a_source_of_which_files_were_moved_goes_on_file_by_file(kind: str, moved: int):
    store = written(STORES[kind](), *TASKS)
    for task in range(moved):
        store.delete_file(source(f"p=1/{'abc'[task]}", task))
    plan = planned(store, may_be_missing=True)
    assert [move.dest for move in plan.moves] == ["/table/p=2"]
    assert plan.by_file == {ByFile.THERE: 1}


# Rights


DEEP = (["a=1/b=1/x", "a=1/b=2/x", "a=2/b=1/x"],)


@of_each_store
def test_a_source_with_other_rights_than_a_new_directory_does_not_go_whole(kind: str):
    store = written(STORES[kind](), *TASKS)
    store.rights[parent(source("p=1/a"))] = "of another user"
    plan = planned(store)
    assert [move.dest for move in plan.moves] == ["/table/p=2"]
    assert plan.by_file == {ByFile.RIGHTS: 1}


@pytest.mark.parametrize("rights", ["of another group", None])
def test_what_is_made_below_a_directory_has_the_rights_that_it_gives(rights: str | None):
    store = written(MemoryStore(), *DEEP)
    store.mkdirs("/table/a=1")
    store.rights["/table/a=1"] = rights
    plan = planned(store)
    assert [move.dest for move in plan.moves] == ["/table/a=2/b=1"]
    assert plan.by_file == {ByFile.RIGHTS: 2}


@pytest.mark.parametrize("missing", [(), ("/table/a=1", "/table/a=2")])
def test_below_a_new_directory_the_nearest_that_exists_decides(missing: Sequence[str]):
    store = written(MemoryStore(), *DEEP)
    assert len(planned(store, missing=missing).moves) == 3
    store.rights["/table"] = "other"
    store.rights[JOB.tasks] = "usual"
    assert planned(store, missing=missing).by_file == {ByFile.RIGHTS: 3}


def test_rights_cost_one_request_for_each_directory_that_gives_some():
    store = written(MemoryStore(), *DEEP)
    counted = requests(store, lambda held: planned(held, missing=("/table/a=1", "/table/a=2")))
    assert counted["rights_below"] == 2  # that of the sources, too
    there = [f"/table/{name}" for name in ("a=1/b=1", "a=1/b=2", "a=2/b=1")]
    assert requests(store, lambda held: planned(held, there))["rights_below"] == 0


def test_rights_that_cannot_be_asked_for_are_no_error():
    store = written(MemoryStore(), *TASKS)
    denied = WrappedStore(store, before=at("rights_below", PermissionError("simulated"), "/table"))
    assert planned(denied).by_file == {ByFile.RIGHTS: 2}


def test_rights_of_a_source_that_is_gone_were_compared_before():
    store = written(MemoryStore(), *TASKS)
    store.move_whole(parent(source("p=1/a")), "/table/p=1")
    store.rights["/table"] = "other"
    store.rights[JOB.tasks] = "usual"
    plan = planned(store, may_be_missing=True)
    assert [move.dest for move in plan.moves] == ["/table/p=1"]


def test_where_listings_do_not_show_access_lists_those_of_the_sources_are_asked_for():
    store = written(MemoryStore(), *TASKS)
    store.rights[join(JOB.tasks, "in")] = None  # an access list
    for number in (1, 2):
        store.rights[parent(source(f"p={number}/a"))] = "usual"
    assert planned(store).by_file == {ByFile.RIGHTS: 2}


def test_a_dry_run_on_local_files_knows_rights_as_the_commit_does(tmp_path: Path):
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = written(LocalStore(StoreSpec("file")), *TASKS, job=job)
    os.setxattr(job.destination, "system.posix_acl_access", access_list())
    found = context(store, job=job)
    plan = plan_moves(found, look_at_sources(found, loaded(found)), moves_here=True)
    assert len(plan.moves) == 2
    assert with_same_rights(found, plan, is_dry_run=True).by_file == {ByFile.RIGHTS: 2}


def test_a_dry_run_takes_rights_that_are_not_known_for_equal():
    store = written(MemoryStore(), *TASKS)
    found = context(store)
    look = look_at_sources(found, loaded(found))
    plan = plan_moves(found, look, moves_here=True)
    store.rights["/table"] = None
    assert len(with_same_rights(found, plan, is_dry_run=True).moves) == 2
    assert len(with_same_rights(found, plan).moves) == 0
    store.rights["/table"] = "other"
    assert len(with_same_rights(found, plan, is_dry_run=True).moves) == 0
