"""Files that tasks wrote and that are missing, or changed, are found before the record, all at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import structs

from ray_committer.errors import SHOWN, IncompleteJobError, ManifestError, shown
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.state import Phase
from ray_committer.stages.bind_versions import bind_versions
from ray_committer.stages.checks.sources import SourcesLook, look_at_sources
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import all_files, put_file, source_of
from ray_committer.work.worker import Worker
from tests.opening import moves_a_file
from tests.stages.support import (
    JOB,
    KINDS,
    OfWorkers,
    at,
    calls_of,
    context,
    loaded,
    manifest_path,
    now,
    place_of,
    source_path,
    staged_name,
    state_of,
    task_files,
    with_job,
)

of_each_size = pytest.mark.usefixtures("small_and_large_jobs")

LOOK: dict[str, Callable[[], MemoryStore]] = {
    "directories": MemoryStore,
    "flat": KINDS["flat"],
    "generations": KINDS["generations"],
    "generations in folders": lambda: MemoryStore(identity=Identity.GENERATION),
}
"""Stores on which files of tasks are listed; for the generations that is done by the load."""


def written(store: MemoryStore, *tasks: dict[str, bytes]) -> MemoryStore:
    write_job(store, JOB, dict(enumerate(tasks)))
    return store


def look(store: StoreOperations) -> SourcesLook:
    found = context(store)
    seen = look_at_sources(found, bind_versions(found, loaded(found)))
    assert seen.errors == ()
    return seen


def refused(store: MemoryStore) -> str:
    """What a commit says that moves nothing, and leaves the job open."""
    before = task_files(store)
    with pytest.raises(ManifestError) as caught:
        run_commit(store, JOB)
    assert task_files(store) == before
    assert visible_files(store, JOB.destination) == {}
    assert state_of(store).phase is Phase.OPEN
    return str(caught.value).replace(now(store).tasks, JOB.tasks)


def apart(name: str, _: int = 0) -> str:
    return name


def side_by_side(name: str, task: int = 0) -> str:
    """The name of a file that is staged."""
    return staged_name(f"p=1/{name}", task)


of_each_layout = pytest.mark.parametrize("called", [apart, side_by_side])


@of_each_size
@of_each_layout
def test_sources_that_are_missing_or_changed_are_reported_at_once(called: Callable[..., str]):
    files = {called(name): b"1" for name in ("right", "gone", "longer", "written-again", "directory")}
    store = written(MemoryStore(), files)
    for name in ("gone", "directory"):
        store.delete_file(source_path(0, called(name)))
    store.write(source_path(0, called("longer")), b"12")
    store.write(source_path(0, called("written-again")), b"2")
    store.mkdirs(source_path(0, called("directory")))
    text = refused(store)
    assert "names 4 files that are missing or changed; abort the job and run it again" in text
    assert f"{source_path(0, called('gone'))}: is not there" in text
    assert f"{source_path(0, called('longer'))}: has 2 bytes, not 1" in text
    assert f"{source_path(0, called('written-again'))}: was changed after its task committed" in text
    assert f"{source_path(0, called('directory'))}: is a directory" in text
    assert "right" not in text


@of_each_size
@of_each_layout
@pytest.mark.parametrize("kind", LOOK)
def test_those_of_all_manifests_are_reported_at_once(kind: str, called: Callable[..., str]):
    tasks = ({"a": b"1"}, {"b": b"2", "c": b"3"}, {"d": b"4"}, {"e": b"5"})
    named = [{called(name, n): data for name, data in task.items()} for n, task in enumerate(tasks)]
    store = written(LOOK[kind](), *named)

    def source(task: int, name: str) -> str:
        return source_path(task, called(name, task))

    for task, name in ((0, "a"), (1, "c"), (3, "e")):
        store.delete_file(source(task, name))
    store.write(source(3, "e"), b"longer")
    with pytest.raises(ManifestError) as caught:
        run_commit(store, JOB)
    assert state_of(store).phase is Phase.OPEN
    text = str(caught.value).replace(now(store).tasks, JOB.tasks)
    assert text.startswith(f"memory://test{JOB.manifests}: names 3 files that are missing or changed")
    assert "abort the job and run it again" in text
    for task, name, what in ((0, "a", "is not there"), (1, "c", "is not there"), (3, "e", "has 6 byte")):
        assert text.count(f"{source(task, name)}: {what}") == 1
    for task, name in ((1, "b"), (2, "d")):
        assert source(task, name) not in text


@of_each_size
@of_each_size
@of_each_layout
@pytest.mark.parametrize("kept", [0, 1])
def test_a_store_that_changes_etags_when_it_renames_a_directory_is_named(
    kept: int, called: Callable[..., str]
):
    store = MemoryStore(identity=Identity.ETAG)
    written(store, *({called(name, task): b"1"} for task, name in enumerate("abc")))

    def change(call: StoreCall) -> None:
        if call.operation == "move_whole":
            for path, data in sorted(all_files(store, call.paths[1]).items())[kept:]:
                store.write(path, data)

    with pytest.raises(ManifestError) as caught:
        run_commit(WrappedStore(store, after=change), JOB)
    is_named = "this store changes etags when it renames a directory" in str(caught.value)
    assert is_named == (kept == 0)
    assert ("names 2 files that are missing or changed" in str(caught.value)) == (kept == 1)
    assert state_of(store).phase is Phase.OPEN


def test_once_they_are_put_back_the_same_commit_succeeds():
    store = written(MemoryStore(identity=Identity.SIZE_ONLY), {"a": b"1"}, {"b": b"2"})
    for task, name in ((0, "a"), (1, "b")):
        store.delete_file(source_path(task, name))
    refused(store)
    refused(store)
    for task, name in ((0, "a"), (1, "b")):
        store.write(source_path(task, name, now(store)), b"1")
    run_commit(store, JOB)
    assert visible_files(store, "/table") == {"a": b"1", "b": b"1"}


@of_each_size
def test_of_many_wrong_sources_some_are_shown_and_all_are_counted():
    files = {f"f{number:03d}": b"x" for number in range(2 * SHOWN)}
    store = written(MemoryStore(), files)
    for name in files:
        store.delete_file(source_path(0, name))
    text = refused(store)
    assert f"names {2 * SHOWN} files" in text
    assert text.endswith(f" | and {SHOWN} more")
    assert text.count("is not there") == SHOWN


@of_each_size
@pytest.mark.parametrize(("directories", "files"), [(1, 1), (1, 3), (3, 1), (3, 9), (40, 1)])
def test_each_directory_of_a_task_is_listed_once_however_few_files_it_has(directories: int, files: int):
    names = [f"p={one}/f{other}" for one in range(directories) for other in range(files)]
    store = written(MemoryStore(), dict.fromkeys(names, b"x"))
    calls = calls_of(store, look)
    listed = [call.paths[0] for call in calls if call.operation == "list_status"]
    tasks = [path for path in listed if path.startswith(JOB.tasks)]
    assert len(tasks) == directories


@of_each_size
@pytest.mark.parametrize("name", ["b", ".hidden", "_under", "p=1/b", ".d/b", "p=1/.b"])
@pytest.mark.parametrize("others", [{}, {"a": b"1"}, {"p=2/a": b"1", "p=3/a": b"1"}])
def test_a_source_that_vanished_is_found_whatever_its_name_and_directory(name: str, others: dict):
    store = written(MemoryStore(), {**others, name: b"x"})
    store.delete_file(source_path(0, name))
    assert f"{name}: is not there" in refused(store)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_listing_that_fails_is_an_error_and_not_a_missing_source(error: type[OSError]):
    store = written(MemoryStore(), {"a": b"1"})
    with pytest.raises(error):
        look(WrappedStore(store, before=at("list_status", error("simulated"), "_0")))


# Files of all tasks beside each other


def staged(*tasks: list[str]) -> list[dict[str, bytes]]:
    """Files of some tasks, each named for the first attempt of its task."""
    return [{staged_name(name, task): b"x" for name in names} for task, names in enumerate(tasks)]


def write_late(store: MemoryStore, name: str, task: int, attempt: int, data: bytes = b"late") -> str:
    """A file that an attempt writes beside others, and that is in no manifest."""
    attempt_id = f"attempt_{JOB.job_id}_m_{task:06d}_{attempt}"
    path = source_of(JOB, attempt_id, staged_name(name, task, attempt))
    put_file(store, path, data)
    return path


PLACES = [[f"p={n % 4}/f{n}" for n in range(8)] for _ in range(20)]


@of_each_size
def test_a_directory_that_tasks_share_is_listed_once():
    store = written(MemoryStore(), *staged(*PLACES))
    calls = calls_of(store, look)
    paths = [call.paths[0] for call in calls if call.operation == "list_status"]
    listed = [path.removeprefix(JOB.tasks) for path in paths if path.startswith(JOB.tasks)]
    # The directories of the files, and two listings of the directories that there are.
    assert Counter(path.count("/") for path in listed) == {2: 4, 1: 2}


@pytest.mark.parametrize("kind", ["generations", "generations in folders"])
def test_where_versions_are_listed_all_files_cost_two_listings_by_pages(kind: str):
    store = written(LOOK[kind](), *staged(*PLACES))
    store.page_names = 100
    counted = Counter(call.operation for call in calls_of(store, look))
    assert counted["list_files_page"] == 2 + 2  # for the versions, and for the look
    assert counted["list_files"] == 0
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 160


def test_where_the_manifests_have_etags_all_files_cost_one_listing():
    store = written(MemoryStore(identity=Identity.ETAG, listing_is_cheap=False), *staged(*PLACES))
    calls = calls_of(store, look)
    counted = Counter(call.operation for call in calls)
    assert (counted["list_files_page"], counted["list_files"]) == (1, 0)
    assert not [call for call in calls if call.operation == "list_status" and "/in/" in call.paths[0]]
    store.delete_file(source_of(JOB, f"attempt_{JOB.job_id}_m_000003_0", staged_name("p=3/f3", 3)))
    assert "names 1 files that are missing or changed" in refused(store)


@of_each_size
@pytest.mark.parametrize("kind", LOOK)
def test_a_file_that_no_manifest_names_stops_the_commit_if_its_attempt_counts(kind: str):
    store = written(LOOK[kind](), *staged(["p=1/a"], ["p=1/b", "p=2/c"]))
    late = [write_late(store, name, task, 0) for name, task in (("p=1/late", 0), ("p=2/late", 1))]
    with pytest.raises(IncompleteJobError) as caught:
        run_commit(store, JOB)
    assert "2 files of task attempts that count are named by no manifest" in str(caught.value)
    late = [place_of(store, path) for path in late]
    assert all(path in str(caught.value) for path in late)
    assert visible_files(store, JOB.destination) == {}
    assert state_of(store).phase is Phase.OPEN
    for path in late:
        store.delete_file(path)
    assert run_commit(store, JOB).moved == 3


@of_each_size
@pytest.mark.parametrize("kind", LOOK)
def test_such_a_file_is_found_also_in_a_directory_that_no_manifest_names(kind: str):
    store = written(LOOK[kind](), *staged(["p=1/a"]))
    late = write_late(store, "p=9/late", 0, 0)
    with pytest.raises(IncompleteJobError, match=late.removeprefix(JOB.tasks)):
        run_commit(store, JOB)


@pytest.mark.parametrize("kind", LOOK)
def test_such_a_file_is_found_also_if_no_manifest_names_any_file(kind: str):
    store = written(LOOK[kind](), {}, {})
    late = write_late(store, "p=1/late", 1, 0)
    with pytest.raises(IncompleteJobError, match=late.removeprefix(JOB.tasks)):
        run_commit(store, JOB)
    store.delete_file(place_of(store, late))
    assert run_commit(store, JOB).moved == 0


@of_each_size
@pytest.mark.parametrize("kind", LOOK)
def test_files_of_attempts_that_do_not_count_are_leftovers_and_stay_until_the_clean_up(kind: str):
    store = written(LOOK[kind](), *staged(["p=1/a"], ["p=1/b"]))
    late = [write_late(store, name, 0, 1) for name in ("p=1/late", "p=9/late")]
    late.append(write_late(store, "p=1/.hidden", 0, 0))  # no task commits such a name

    def look(call: StoreCall) -> None:
        if moves_a_file(call):
            there.append(all(store.get_status(place_of(store, path)) is not None for path in late))

    there: list[bool] = []
    assert run_commit(WrappedStore(store, before=look), JOB).moved == 2
    assert there == [True, True]
    assert sorted(visible_files(store, JOB.destination)) == sorted(
        f"p=1/{staged_name(name, task)}" for task, name in enumerate("ab")
    )
    assert store.get_status(JOB.directory) is None


@of_each_size
@pytest.mark.parametrize("kind", LOOK)
def test_what_is_wrong_beside_leftovers_is_named(kind: str):
    store = written(LOOK[kind](), *staged(["p=1/a"], ["p=1/b"]))
    write_late(store, "p=1/late", 0, 1)
    path = source_of(JOB, f"attempt_{JOB.job_id}_m_000001_0", staged_name("p=1/b", 1))
    store.write(path, b"longer")
    text = refused(store)
    assert "names 1 files that are missing or changed" in text
    assert f"{path}: has 6 bytes, not 1" in text


def test_with_leftovers_only_their_directory_is_listed_again():
    store = written(MemoryStore(), *staged(*PLACES))
    write_late(store, "p=1/late", 0, 1)
    before = len(calls_of(store, look))
    store.delete_file(write_late(store, "p=1/late", 0, 1))
    assert before - len(calls_of(store, look)) == 1


OF_FOUR_THREADS = {
    "a worker's": lambda opens: OfWorkers(lambda permits: opens(permits, 4)),
    "this process's": lambda opens: ThreadsExecutor(lambda permits: opens(permits, 1), threads=4),
}


@pytest.mark.parametrize("threads", OF_FOUR_THREADS)
def test_the_directories_of_one_task_are_listed_at_once(threads: str):
    store = with_job({0: {f"p={number % 8}/f{number}": b"x" for number in range(16)}})
    together = threading.Barrier(4, timeout=10)  # one listing after another breaks it
    first = iter(range(4))

    def wait(call: StoreCall) -> None:
        is_one = call.operation == "list_status" and "/p=" in call.paths[0]
        if is_one and next(first, None) is not None:
            together.wait()

    manifests = loaded(context(store))
    waiting = WrappedStore(store, before=wait)
    executor = OF_FOUR_THREADS[threads](
        lambda permits, width: Worker(waiting, JOB, permits, width, in_driver=True)
    )
    executor.threads = 4 // executor.width
    assert look_at_sources(context(store, executor=executor), manifests).errors == ()
    executor.close()


@pytest.mark.parametrize("files", [1, 11])
def test_a_worker_reads_one_pack_and_no_manifest_that_another_one_has_loaded(files: int):
    store = written(MemoryStore(), {f"f{number}": b"x" for number in range(files)})
    calls: list[StoreCall] = []
    counted = WrappedStore(store, before=calls.append)

    def worker() -> OfWorkers:
        return OfWorkers(lambda permits: Worker(counted, JOB, permits, 4, in_driver=False))

    manifests = loaded(context(store, executor=worker()))
    calls.clear()
    assert look_at_sources(context(store, executor=worker()), manifests).errors == ()
    assert Counter(call.operation for call in calls) == Counter(list_status=1, read=1)


def test_threads_that_are_more_than_the_tasks_report_what_is_wrong_with_each_of_them():
    tasks = [{f"p={n % 2}/f{task}-{n}": b"x" for n in range(4)} for task in range(3)]
    store = written(MemoryStore(), *tasks)
    manifests = loaded(context(store))
    store.delete_file(source_path(0, "p=1/f0-1"))
    store.write(source_path(2, "p=0/f2-0"), b"longer")
    executor = ThreadsExecutor(lambda permits: Worker(store, JOB, permits, in_driver=True), threads=4)
    (error,) = look_at_sources(context(store, executor=executor), manifests).errors
    executor.close()
    assert "names 2 files" in str(error)
    assert "p=1/f0-1: is not there" in shown(str(error))
    assert "p=0/f2-0: has 6 bytes, not 1" in shown(str(error))


@of_each_size
@pytest.mark.parametrize("in_driver", [True, False])
def test_a_manifest_that_was_replaced_with_its_files_is_loaded_again(in_driver: bool):
    store = written(MemoryStore(), {"a": b"1"}, {"b": b"2"})
    once: list[StoreCall] = []

    def replace(call: StoreCall) -> None:
        """Another attempt of the task replaces the manifest, and the files of the first are deleted."""
        if call.operation == "list_status" and call.paths[0].startswith(JOB.tasks) and not once:
            once.append(call)
            store.write(source_path(0, "again"), b"3")
            path = manifest_path(0)
            found = decode_manifest(store.read(path), path)
            status = store.get_status(source_path(0, "again"))
            assert status is not None
            (file,) = found.files
            again = structs.replace(
                file, s=f"{file.s}gain", d=f"{file.d}gain", m=status.modified_milliseconds
            )
            store.write(path, encode_manifest(structs.replace(found, files=[again])))
            store.delete_file(source_path(0, "a"))

    wrapped = WrappedStore(store, before=replace)
    kind = InlineExecutor if in_driver else OfWorkers
    executor = kind(lambda permits: Worker(wrapped, JOB, permits, in_driver=in_driver))
    run_commit(wrapped, JOB, executor=executor)
    assert visible_files(store, "/table") == {"again": b"3", "b": b"2"}
