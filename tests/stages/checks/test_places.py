"""What stands in a job's way is found before the record, all of it at once, and leaves the job open."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ray_committer.errors import CommitConflictError, LinkedPathError, PreflightError
from ray_committer.executors.inline import InlineExecutor
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import TEMPORARY, JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.old_data.mode_roots import ModeRoots
from ray_committer.stages.preflight import look_at_data
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    Identity,
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, KINDS, WithMount, calls_of, context, loaded, phase_of, task_files

FILES = {"a": b"1", "p=1/b": b"2", "p=1/c": b"3", "p=2/d": b"4"}
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return written(KINDS[request.param]())


def written(store: MemoryStore, files: dict[str, bytes] = FILES) -> MemoryStore:
    write_job(store, JOB, {0: files})
    return store


def refused(store: MemoryStore, options: CommitOptions | None = None) -> str:
    """What a commit says that changes nothing of the output and leaves the job open."""
    before = visible_files(store, "/table")
    sources = task_files(store)
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, JOB, options)
    assert visible_files(store, "/table") == before
    assert task_files(store) == sources
    assert phase_of(store) is Phase.OPEN
    return str(caught.value)


# Where files go


def test_all_names_that_are_there_are_reported_at_once_and_once_they_are_gone_the_job_is_committed(
    store: MemoryStore,
):
    for name in ("a", "p=1/c", "p=2/d"):
        put_file(store, f"/table/{name}", b"of somebody else")
    text = refused(store)
    for name in ("a", "p=1/c", "p=2/d"):
        assert f"/table/{name}: is there already" in text
    assert "/table/p=1/b" not in text
    assert "nothing was changed: move what is there away" in text
    for name in ("a", "p=1/c", "p=2/d"):
        store.delete_file(f"/table/{name}")
    run_commit(store, JOB)
    assert visible_files(store, "/table") == FILES


def test_files_where_the_job_needs_directories_are_reported_with_the_names():
    store = written(MemoryStore())
    put_file(store, "/table/a", b"x")
    put_file(store, "/table/p=1", b"a file")
    put_file(store, "/table/p=2", b"a file")
    text = refused(store)
    for wrong in ("/table/a: is there already", "/table/p=1: is a file where", "/table/p=2: is a file"):
        assert wrong in text


def test_a_file_that_stands_above_the_directory_is_the_one_that_is_named():
    store = written(MemoryStore(), {"p=1/q=1/b": b"1", "p=1/q=2/b": b"2"})
    put_file(store, "/table/p=1", b"a file")
    assert refused(store).count("/table/p=1: is a file where the job needs a directory") == 1


NOWHERE = "is a link to nothing where the job needs a directory"


def written_here(root: Path, files: dict[str, bytes]) -> tuple[LocalStore, JobAttempt]:
    store, job = LocalStore(StoreSpec("file")), new_job_attempt(str(root), "job", 0)
    write_job(store, job, {0: files})
    return store, job


def test_links_to_nothing_where_the_job_needs_directories_are_reported_at_once(tmp_path: Path):
    store, job = written_here(
        tmp_path, {"p=1/a": b"1", "p=2/q=1/b": b"2", "p=2/q=2/c": b"3", "p=3/d": b"4"}
    )
    for name in ("p=1", "p=2"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, job)
    for name in ("p=1", "p=2"):
        assert str(caught.value).count(f"{tmp_path}/{name}: {NOWHERE}") == 1
    assert str(caught.value).count(NOWHERE) == 2
    assert phase_of(store, job) is Phase.OPEN
    for name in ("p=1", "p=2"):
        (tmp_path / name).unlink()
    run_commit(store, job)
    assert len(visible_files(store, str(tmp_path))) == 4


def test_a_file_behind_a_link_is_refused_and_kept(tmp_path: Path):
    table, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    store, job = written_here(table, {"p=1/q=1/a": b"1"})
    elsewhere.mkdir()
    (elsewhere / "q=1").write_bytes(b"of another table")
    (table / "p=1").symlink_to(elsewhere)
    with pytest.raises(LinkedPathError, match="p=1/q=1: is a file where the job needs a directory"):
        run_commit(store, job)
    assert (elsewhere / "q=1").read_bytes() == b"of another table"


def test_a_link_to_itself_leads_nowhere(tmp_path: Path):
    store, job = written_here(tmp_path, {"p=1/q=1/a": b"1", "p=2/b": b"2"})
    for name in ("p=1", "p=2"):
        (tmp_path / name).symlink_to(name)
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, job)
    assert str(caught.value).count(NOWHERE) == 2


def test_a_directory_in_the_place_of_a_file_is_reported(store: MemoryStore):
    put_file(store, "/table/a/inside", b"x")
    assert "/table/a: is there already" in refused(store)


# Where old data is replaced, which goes only after all that is new is in place


def test_old_files_are_only_in_the_way_of_directories():
    store = written(MemoryStore(), {**FILES, "p=3/q=1/e": b"5"})
    for name in ("a", "p=1/c", "p=2", "p=3/q=1"):
        put_file(store, f"/table/{name}", b"old")
    only = CommitOptions(
        mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=1", "/table/p=3", "/table/z")
    )
    text = refused(store, only)
    for wrong in (
        "/table/a: is there already",
        "memory://test/table/p=2: is a file where the job needs a directory",
        "/table/p=3/q=1: is a file where the job needs a directory",
    ):
        assert text.count(wrong) == 1
    assert "/table/p=1/c" not in text


@pytest.mark.parametrize("is_cheap", [True, False])
def test_an_old_file_in_the_place_of_a_directory_is_refused_with_the_command_that_removes_it(
    is_cheap: bool,
):
    store = written(
        MemoryStore(listing_is_cheap=is_cheap), {"p=1/q=1/b": b"1", "p=1/q=2/b": b"2", "p=2/c": b"3"}
    )
    for name in ("p=1", "p=2", "z"):
        put_file(store, f"/table/{name}", b"old")
    assert refused(store, OVERWRITE) == (
        "memory://test/table/p=1: is a file where the job needs a directory | "
        "memory://test/table/p=2: is a file where the job needs a directory; "
        "nothing was changed: let the tasks write under other names. Only if no job has committed what "
        "is there (in a table with a log, `ray-committer show FILE` names the job), remove it and run "
        "the same command: hdfs dfs -rm memory://test/table/p=1 memory://test/table/p=2"
    )
    for name in ("p=1", "p=2"):
        store.delete_file(f"/table/{name}")
    run_commit(store, JOB, OVERWRITE)
    assert visible_files(store, "/table") == {"p=1/q=1/b": b"1", "p=1/q=2/b": b"2", "p=2/c": b"3"}


@pytest.mark.parametrize("inside", ["", "/q=1"])
def test_an_old_directory_where_the_job_needs_a_file_is_reported(inside: str):
    store = written(MemoryStore(listing_is_cheap=False))
    store.mkdirs(f"/table/a{inside}")
    text = refused(store, OVERWRITE)
    assert text.startswith(
        "memory://test/table/a: is a directory where the job needs a file; nothing was changed"
    )


def test_a_file_in_the_place_of_a_replaced_directory_and_one_above_it_are_refused():
    roots = ("/table/p=1/q=1", "/table/p=7")
    options = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=roots)
    store = written(MemoryStore(), {"p=1/q=1/b": b"1", "a": b"2"})
    put_file(store, "/table/p=1", b"old")
    assert refused(store, options).startswith(
        "memory://test/table/p=1: is a file where the job needs a directory; nothing was changed"
    )
    store.delete_file("/table/p=1")
    put_file(store, "/table/p=1/q=1", b"old")
    assert refused(store, options).startswith(
        "memory://test/table/p=1/q=1: is a file where the job needs a directory; nothing was changed"
    )


def test_a_file_in_the_place_of_a_replaced_directory_that_gets_no_file_stays():
    store = written(MemoryStore(), {"p=1/b": b"1"})
    put_file(store, "/table/p=7", b"old")
    run_commit(store, JOB, CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=7",)))
    assert visible_files(store, "/table") == {"p=1/b": b"1", "p=7": b"old"}


@pytest.mark.parametrize("kind", ["flat", "generations"])
def test_where_a_name_can_be_a_file_and_a_directory_old_files_are_in_nobodys_way(kind: str):
    store = written(KINDS[kind]())
    put_file(store, "/table/p=1", b"old")
    run_commit(store, JOB, OVERWRITE)
    assert visible_files(store, "/table") == FILES


def test_old_links_where_the_job_needs_directories_are_refused(tmp_path: Path):
    files = {"p=1/q=1/a": b"1", "p=2/b": b"2", "p=3/c": b"3"}
    store, job = written_here(tmp_path, files)
    before = Path(__file__).read_bytes()
    for name in ("p=1", "p=2", "z"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    (tmp_path / "p=3").symlink_to(__file__)
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, job, OVERWRITE)
    in_the_way = [f"{tmp_path}/p={number}" for number in (1, 2, 3)]
    assert caught.value.advice.endswith(f"run the same command: rm {' '.join(in_the_way)}")
    subprocess.run(["rm", *in_the_way], check=True)
    run_commit(store, job, OVERWRITE)
    assert visible_files(store, str(tmp_path)) == files
    assert Path(__file__).read_bytes() == before


# How often it looks


def check(
    store: MemoryStore, directories: list[str], roots: tuple[str, ...] = ()
) -> tuple[list[str], Counter[str]]:
    """The directories of other jobs that a look at some directories returns, and its requests."""
    calls: list[StoreCall] = []
    found = context(WrappedStore(store, before=calls.append))
    manifests = loaded(found)
    found.executor.directories.forget()
    found.executor.directories.collect(0, directories, b"")
    calls.clear()
    manifests = replace(manifests, manifests=(), fills_destination=False)
    seen = look_at_data(found, manifests, ModeRoots(roots))
    return list(seen.destinations), Counter(call.operation for call in calls)


def test_each_directory_is_listed_once_and_those_that_are_replaced_with_the_old_data():
    store = written(MemoryStore())
    for name in ("p=1", "p=2/q"):
        store.mkdirs(f"/table/{name}")
    found = check(store, ["/table", "/table/p=1", "/table/p=2", "/table/p=2/q"], ("/table/p=2",))
    assert found == ([], {"find_names": 1, "list_page": 1, "list_status": 3})


def test_directories_in_which_other_jobs_were_set_up_are_returned(store: MemoryStore):
    put_file(store, f"/table/p=1/{TEMPORARY}/job_9/00/state/x", b"")
    assert check(store, ["/table/p=1", "/table/p=2"])[0] == ["/table/p=1"]


@pytest.mark.parametrize("is_cheap", [True, False])
def test_a_listing_that_takes_long_changes_nothing_of_which_directory_it_is(is_cheap: bool):
    """Of two at once, the one that is asked for first is answered last."""
    store = written(MemoryStore(listing_is_cheap=is_cheap))
    for number in range(1, 9):
        store.mkdirs(f"/table/p={number}")
    put_file(store, f"/table/p=1/{TEMPORARY}/job_9/00/state/x", b"")
    is_second_answered = threading.Event()

    def wait(call: StoreCall) -> None:
        if call.operation == "list_status" and call.paths[0].startswith("/table/p=1"):
            assert is_second_answered.wait(30)

    def note(call: StoreCall) -> None:
        if call.operation == "list_status" and call.paths[0].startswith("/table/p=2"):
            is_second_answered.set()

    slow = WrappedStore(store, before=wait, after=note)
    executor = InlineExecutor(lambda permits: Worker(slow, JOB, permits, 2, in_driver=True))
    found = context(slow, executor=executor)
    manifests = loaded(found)
    directories = [f"/table/p={number}" for number in range(1, 9)]  # two for each piece of work
    found.executor.directories.collect(0, directories, b"")
    try:
        seen = look_at_data(found, replace(manifests, manifests=()), ModeRoots())
        assert seen.destinations == ("/table/p=1",)
    finally:
        executor.close()


def test_directories_that_are_not_there_yet_are_no_error(store: MemoryStore):
    assert check(store, ["/nowhere", "/table/p=7"])[0] == []
    assert check(store, [])[1] == {}


def test_where_a_listing_is_not_cheap_only_the_jobs_there_are_listed():
    store = written(MemoryStore(listing_is_cheap=False))
    put_file(store, "/table/a", b"x")
    store.mkdirs("/table/p=1")
    assert check(store, ["/table", "/table/p=1"]) == ([], Counter(get_status=2, list_status=1))
    with pytest.raises(CommitConflictError, match="/table/a: is there already"):
        run_commit(store, JOB)
    assert store.read("/table/a") == b"x"


# Where nothing can be renamed to


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
def test_a_directory_on_another_file_system_is_found_before_the_record(tmp_path, mode: ConflictMode):
    store = WithMount(StoreSpec("file"))
    job = new_job_attempt(str(tmp_path), "job", 0)
    write_job(store, job, {0: {"p=1/a": b"1", "p=2/b": b"2", "p=2/q=1/c": b"3"}}, mode=mode)
    with pytest.raises(PreflightError) as caught:
        run_commit(store, job, CommitOptions(mode=mode))
    named = str(caught.value).partition(": ")[0]
    assert named.split(" | ") == [f"{tmp_path}/p=2", f"{tmp_path}/p=2/q=1"]
    assert "another file system" in str(caught.value)
    assert phase_of(store, job) is Phase.OPEN
    assert visible_files(store, str(tmp_path)) == {}


# Where listings are not cheap, as on Azure and in Google's buckets with folders


DEAR = {
    "etags": lambda: MemoryStore(identity=Identity.ETAG, listing_is_cheap=False),
    "generations": lambda: MemoryStore(identity=Identity.GENERATION, listing_is_cheap=False),
}


@pytest.mark.parametrize("kind", DEAR.values(), ids=DEAR)
@pytest.mark.parametrize("place", ["/table/day=1/hour=1", "/table/day=1"])
@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.ERROR_PARTITIONS])
def test_a_file_in_the_place_of_a_directory_is_found_before_the_record(
    kind: Callable[[], MemoryStore], place: str, mode: ConflictMode
):
    store = kind()
    tasks = {0: {"day=1/hour=1/a": b"x", "day=2/hour=1/b": b"y"}}
    write_job(store, JOB, tasks, mode=mode)
    put_file(store, place, b"another program's")
    before = visible_files(store, "/table")
    with pytest.raises(CommitConflictError, match=f"{place}: is a file where the job needs a directory"):
        run_commit(store, JOB, CommitOptions(mode=mode))
    assert phase_of(store) is Phase.OPEN
    assert visible_files(store, "/table") == before
    store.delete_file(place)
    assert run_commit(store, JOB, CommitOptions(mode=mode)).moved == 2


@pytest.mark.parametrize(("directories", "asked"), [(1, 1), (7, 0)])
def test_that_costs_a_request_for_one_directory_alone_and_one_page_for_more(
    directories: int, asked: int
):
    tasks = {0: {f"day={number}/a": b"x" for number in range(directories)}}
    looked: list[int] = []
    flat = MemoryStore(real_directories=False, listing_is_cheap=False)
    for store in (*(kind() for kind in DEAR.values()), flat):
        write_job(store, JOB, tasks)
        calls = calls_of(store, lambda one: run_commit(one, JOB))
        looked.append(sum(one.operation == "get_status" and "/day=" in one.paths[0] for one in calls))
    assert looked == [asked, asked, 0]
