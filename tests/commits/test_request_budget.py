"""How many requests a commit without faults makes, as Hadoop's own tests count them.

At most one rename per file, one read per manifest, one new directory per leaf, a few deletions and a
fixed number; where listings are cheap one per directory; two requests per job at work, and one per
directory above the destination.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing import write_job as memory_job
from ray_committer.testing.harness import commit_attempt, load_ahead, set_up_attempt, write_attempt
from tests.opening import opening
from tests.stages.support import staged_name

MOST_FIXED = 24
"""Changes of state, declaration, pack, record, two freezes, what shows that the files of tasks are the
job's, ``_SUCCESS``, listings of other jobs."""


def calls_of(store, job: JobAttempt, options: CommitOptions) -> Counter[str]:
    calls: list[StoreCall] = []
    report = run_commit(WrappedStore(store, before=calls.append), job, options)
    assert report.moved == report.files
    return Counter(call.operation for call in calls)


def listed_sources(tasks: int, files: int, directories: int) -> int:
    """How many directories of tasks are listed, to see whether their files are there."""
    return tasks * min(files, directories)


def output(tasks: int, files: int, directories: int, name: str = "f") -> dict[int, dict[str, str]]:
    return {
        task: {f"p={n % directories}/{name}-{task}-{n}": "x" for n in range(files)}
        for task in range(tasks)
    }


SHAPES = pytest.mark.parametrize(
    ("tasks", "files", "directories"), [(1, 1, 1), (5, 40, 4), (20, 20, 10), (40, 2, 2)]
)


@SHAPES
def test_a_commit_without_faults_keeps_its_budget(
    store, write_job, tasks: int, files: int, directories: int
):
    job = write_job(output(tasks, files, directories))
    found = calls_of(store, job, CommitOptions(validate=False))
    leaves = min(files, directories)
    deletes = 1
    listings = leaves + listed_sources(tasks, files, directories)
    depth = job.destination.count("/")
    by_size = tasks * files + tasks + leaves + deletes + listings
    assert by_size < found.total() <= by_size + MOST_FIXED + depth
    # Of an earlier _SUCCESS, and of what shows that the frozen files are the job's; of no file.
    assert found["get_status"] == 2
    assert found["read"] == tasks
    assert found["mkdirs"] == leaves
    assert found["rename"] == tasks * files  # nothing else is moved so
    assert found["delete_directory"] == deletes


@SHAPES
def test_a_commit_on_an_object_store_keeps_its_budget(tasks: int, files: int, directories: int):
    """No directory is listed to look at files there; no manifest is copied or frozen."""
    store = MemoryStore(identity=Identity.GENERATION, real_directories=False, listing_is_cheap=False)
    job = new_job_attempt("/bucket/table", "job_1", 0)
    written = output(tasks, files, directories)
    memory_job(store, job, {task: dict.fromkeys(one, b"x") for task, one in written.items()})
    found = calls_of(store, job, CommitOptions())
    deletes = found["delete_directory"] + found["delete_file"] + found["delete_version"]
    looks = 2  # of all files of tasks: for their versions, and before the record
    above = 1  # all directories are new
    by_size = tasks * files + tasks + deletes + looks + above
    looks_for_success = 1
    most = MOST_FIXED + looks_for_success + job.destination.count("/")
    assert by_size < found.total() <= by_size + most
    assert found["list_files_page"] in (1, looks)  # or of one directory
    assert deletes <= 8
    assert found["get_status"] == looks_for_success
    assert found["mkdirs"] == 0
    assert found["read"] == tasks
    assert found["write"] == 3  # pack, record, _SUCCESS
    assert found["rename"] == tasks * files


NEW_PARTITIONS = {
    "20 tasks of 500 files in 10": (10, {task: range(500) for task in range(20)}),
    "200 of 10 files in one each": (200, {task: range(task, 2000, 200) for task in range(200)}),
    "20 of 100 files in 100": (100, {task: range(100) for task in range(20)}),
}


@pytest.mark.parametrize(("directories", "numbers"), NEW_PARTITIONS.values(), ids=NEW_PARTITIONS)
def test_a_commit_of_new_partitions_costs_two_requests_for_each_and_none_for_a_file(
    directories: int, numbers: dict[int, range]
):
    """One lists what all tasks have written for it, and one puts it in place. The driver loads
    manifests while tasks run. Deletions of what tasks leave are left out: a store may need one."""
    store, job = MemoryStore(), new_job_attempt("/table", "job_1", 0)
    files = {
        task: {f"p={n % directories}/{staged_name(f'f{n}', task)}": b"x" for n in range_}
        for task, range_ in numbers.items()
    }
    results = memory_job(store, job, files)
    calls: list[StoreCall] = []
    report = run_commit(
        WrappedStore(store, before=calls.append),
        job,
        CommitOptions(committed_tasks=tuple(results)),
        ahead=load_ahead(store, job, results),
    )
    found = Counter(call.operation for call in calls)
    assert report.moved == sum(map(len, numbers.values()))
    assert (found["move_whole"], found["rename"], found["mkdirs"]) == (directories + 1, 0, 0)
    assert found["list_status"] <= directories + 10
    assert found.total() - found["delete_directory"] <= 2 * directories + 31


@pytest.mark.parametrize("exist", [True, False])
def test_parents_of_new_partitions_are_made_once(exist: bool):
    """The look has shown that they are missing."""
    store, job = MemoryStore(), new_job_attempt("/table", "job_1", 0)
    names = [f"a={n}/b=1/{staged_name('f')}" for n in range(7)]
    if exist:
        for n in range(7):
            store.mkdirs(f"/table/a={n}")
    memory_job(store, job, {0: dict.fromkeys(names, b"x")})
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    found = Counter(call.operation for call in calls)
    assert (found["move_whole"], found["mkdirs"]) == (7 + 1, 0 if exist else 7)


@pytest.mark.parametrize("mode", [ConflictMode.OVERWRITE_PARTITIONS, ConflictMode.ERROR_PARTITIONS])
def test_a_mode_for_partitions_costs_nothing_more_where_all_are_new(
    store, write_job, mode: ConflictMode
):
    unmarked = CommitOptions(validate=False, mark_success=False)
    job = write_job({0: {f"p={n}/f": "x" for n in range(7)}})
    appended = calls_of(store, job, unmarked)
    job = write_job({0: {f"q={n}/f": "x" for n in range(7)}}, job_id="job_2")
    found = calls_of(store, job, unmarked.changed(mode=mode))
    assert found == appended


ROOT_REQUESTS = 42
"""What a dynamic overwrite asks beside its files and partitions."""


@pytest.mark.parametrize(("files", "most"), [(1, 900), (10, 4500)])
def test_a_dynamic_overwrite_of_partitions_keeps_its_budget(store, write_job, files: int, most: int):
    """Per partition its old files are listed, and what its task wrote; its parent shows it to be there.
    Per file it is moved, and an old one goes. Reads of manifests are left out: drivers of jobs load them
    while tasks run."""
    tasks = {task: {f"p={task}/f{n}": "x" for n in range(files)} for task in range(200)}
    run_commit(store, write_job(tasks), CommitOptions(validate=False))
    tasks = {task: {name.replace("/f", "/g"): "y" for name in one} for task, one in tasks.items()}
    options = CommitOptions(validate=False, mode=ConflictMode.OVERWRITE_PARTITIONS)
    found = calls_of(store, write_job(tasks, job_id="job_2"), options)
    by_size = Counter(list_page=200, list_status=200, rename=200 * files, set_aside=200 * files)
    assert found >= by_size
    assert (found - by_size).total() - found["read"] <= ROOT_REQUESTS
    assert found.total() - found["read"] <= most
    assert found["mkdirs"] == 2  # aside, for old files and for an old _SUCCESS


@pytest.mark.parametrize("exist", [True, False])
def test_an_append_to_shared_directories_asks_for_each_once(store, write_job, exist: bool):
    """It is listed if it is there, and made if it is not: one page of the parent shows that."""
    old = {0: {f"p={n}/old": "x" for n in range(10)}} if exist else {0: {"old": "x"}}
    run_commit(store, write_job(old))
    job = write_job(output(20, 50, 10), job_id="job_2")
    found = calls_of(store, job, CommitOptions(validate=False))
    per_task = 20 + listed_sources(20, 50, 10)  # a read, and listings of what it wrote
    assert found.total() - 1000 - per_task - 10 <= ROOT_REQUESTS
    assert (found["mkdirs"], found["find_names"]) == (1 if exist else 11, 1)


def test_a_success_of_an_earlier_job_costs_five_requests(store, write_job):
    """It is looked at again and put aside in a directory of its own; the record is written again. The
    partition is there."""
    first = calls_of(store, write_job({0: {"p=1/a": "x"}}), CommitOptions())
    second = calls_of(store, write_job({0: {"p=1/b": "x"}}, job_id="job_2"), CommitOptions())
    once = dict.fromkeys(("mkdirs", "set_aside", "write", "delete_directory"), 1)
    assert second - first == Counter(once, get_status=2) - Counter(mkdirs=1)


def test_a_job_that_must_be_looked_for_costs_two_listings_more(store, write_job, dest):
    without = CommitOptions(validate=False, mark_success=False)
    named = calls_of(store, write_job({0: {"p=1/a": "x"}}), without)
    write_job({0: {"p=1/b": "x"}}, job_id="job_2")
    calls: list[StoreCall] = []
    with opening(before=calls.append):
        ray_committer.commit_job(str(dest), executor="inline", options=without)
    found = Counter(call.operation for call in calls)
    assert found - named == Counter(list_status=2)


KNOWN = {
    "directories": lambda: MemoryStore(),
    "etags": lambda: MemoryStore(identity=Identity.ETAG, listing_is_cheap=False),
    "generations": lambda: MemoryStore(
        identity=Identity.GENERATION, real_directories=False, listing_is_cheap=False
    ),
}


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize(
    ("tasks", "files", "directories", "most"), [(500, 1, 0, 600), (20, 100, 10, 2060)]
)
def test_of_tasks_that_the_driver_knows_a_commit_asks_little_but_the_renames(
    kind: str, tasks: int, files: int, directories: int, most: int
):
    """Their manifests are loaded ahead, and their files lie side by side: nothing is asked per task.
    Directories of tasks are deleted by one request, as on file systems."""
    store, job = KNOWN[kind](), new_job_attempt("/bucket/table", "job_1", 0)
    memory_job(store, job, {})
    results = [write_known(store, job, task, files, directories) for task in range(tasks)]
    options = CommitOptions(committed_tasks=tuple(results), validate=False)
    calls: list[StoreCall] = []
    counted = WrappedStore(store, before=calls.append)
    counted.capabilities = dataclasses.replace(counted.capabilities, deletes_trees=True)
    report = run_commit(counted, job, options, ahead=load_ahead(store, job, results))
    assert report.moved == tasks * files
    found = Counter(call.operation for call in calls)
    assert found["read"] <= 1
    assert found.total() <= most


def write_known(store: MemoryStore, job: JobAttempt, task: int, files: int, directories: int):
    """Write the files of a task, and return the result of its commit."""
    names = [
        f"p={number % directories}/{staged_name(f'f{number}', task)}"
        if directories
        else staged_name(f"f{number}", task)
        for number in range(files)
    ]
    attempt_id = set_up_attempt(store, job, task, 0)
    write_attempt(store, job, attempt_id, dict.fromkeys(names, b"x"))
    return commit_attempt(store, job, task, attempt_id, files=names)
