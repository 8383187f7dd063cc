"""What is wrong with a job is found before anything is touched, by the name of the file."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, CommittedTask, ConflictMode
from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    IncompleteJobError,
    MissingManifestsError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import ManifestRef, digest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages import preflight as preflight_module
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.old_data.mode_roots import ModeRoots, roots_of_mode
from ray_committer.stages.preflight import OldFiles, look_at_data, preflight
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing import write_job as write_tasks
from ray_committer.testing.harness import put_file
from tests.stages.manifests import CHANGING, edit, refused
from tests.stages.support import JOB, at, context, loaded, requests, with_job


def test_two_tasks_with_one_destination_are_refused_by_both_names(store, write_job):
    job = write_job({0: {"p=1/a": "x"}, 1: {"p=1/a": "y"}, 2: {"p=1/b": "z"}})
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    for task in (0, 1):
        assert f"{job.task_attempt(f'attempt_1_m_{task:06d}_0')}/p=1/a" in str(error)
    assert error.exit_code == 1


def test_two_entries_of_one_manifest_with_one_destination_are_refused(store, write_job):
    job = write_job({0: {"a": "x", "b": "y"}})
    edit(job, 0, lambda content: content["files"][1].update(d=content["files"][0]["d"]))
    assert "more than once" in str(refused(store, job))


@pytest.mark.parametrize("below", ["a/b", "a/b/c/d"])
def test_a_file_where_a_directory_of_the_output_must_go_is_refused(store, write_job, below: str):
    job = write_job({0: {"a": "x"}, 1: {below: "y"}})
    assert "a directory of the output" in str(refused(store, job))


def test_a_job_without_manifests_is_an_error_and_without_files_a_success(store, write_job):
    assert isinstance(refused(store, write_job({})), IncompleteJobError)
    assert run_commit(store, write_job({0: {}}, job_id="job_2")).files == 0


TASK, OTHER = "attempt_1_m_000000_0", "attempt_1_m_000001_0"


@pytest.mark.parametrize(
    ("attempts", "what"),
    [
        (
            {"1": TASK, "2": OTHER, "3": TASK},
            f"3: belongs to task attempt {JOB.tasks}/{TASK}, as does 1",
        ),
        ({"1": None, "2": "own", "3": "own"}, f"3: belongs to task attempt {JOB.tasks}/own, as does 2"),
        (
            {"1": TASK, "2": f"{JOB.tasks}/{TASK}"},
            f"belongs to task attempt {JOB.tasks}/{TASK}, as does",
        ),
        ({"1": "/far/away", "2": "/far/away"}, "2: belongs to task attempt /far/away, as does 1"),
        (
            {"1": TASK, "2": OTHER, "3": f"{TASK[:-1]}12"},
            "3: belongs to the same task as 1, so its rows",
        ),
        ({"1": TASK, "2": OTHER, "3": "/far/away", "4": None, "5": None, "6": "own"}, None),
    ],
)
def test_two_manifests_of_one_task_or_attempt_are_refused_by_name(
    attempts: dict[str, str | None], what: str | None
):
    refs = tuple(
        ManifestRef(name, 1, "", 0, None if is_path else attempt, attempt if is_path else None)
        for name, attempt in attempts.items()
        for is_path in [attempt is not None and attempt.startswith("/")]
    )
    job = LoadedManifests(len(refs), (), IOStatistics(), manifests=refs)
    check = partial(preflight, context(MemoryStore(), CommitOptions(assume_complete=True)), job)
    if what is None:
        check()
        return
    with pytest.raises(PreflightError, match=re.escape(what)):
        check()


def test_a_task_attempt_whose_name_leads_elsewhere_is_refused(store, write_job):
    job = write_job({0: {"a": "x"}})
    edit(job, 0, lambda content: content.update(taskAttemptID="../other"))
    assert "task attempt id '../other'" in str(refused(store, job))


@pytest.mark.parametrize(("expected", "error"), [(3, MissingManifestsError), (1, PreflightError)])
def test_another_number_of_manifests_than_expected_is_refused(
    store, write_job, expected: int, error: type[Exception]
):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    raised = refused(store, job, CommitOptions(expected_tasks=expected))
    assert isinstance(raised, error)
    assert "2 manifests" in str(raised)


def test_who_does_not_know_that_all_tasks_are_done_must_say_so(store, write_job):
    job = write_job({0: {"a": "x"}})
    error = refused(store, job, CommitOptions(assume_complete=False))
    assert "--expect-tasks" in str(error)
    assert run_commit(store, job, CommitOptions(expected_tasks=1, assume_complete=False)).moved == 1


def committed(job: JobAttempt, task: int) -> CommittedTask:
    path = Path(job.manifest(f"task_1_m_{task:06d}"))
    return CommittedTask(path.name, digest(path.read_bytes()), f"attempt_1_m_{task:06d}_0")


def test_a_manifest_that_another_attempt_replaced_is_refused(store, write_job):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    tasks = (committed(job, 0), committed(job, 1))
    path = edit(job, 1, lambda content: content.update(taskAttemptID="attempt_1_m_000001_7"))
    error = refused(store, job, CommitOptions(committed_tasks=tasks))
    assert str(path) in str(error)


def test_the_conflict_mode_is_judged_once(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x", "b": "y"}})
    options = CommitOptions(mode=ConflictMode.ERROR)

    with pytest.raises(RayCommitterError):
        run_commit(
            WrappedStore(store, before=at("rename", PermissionError("simulated"), "/b")), job, options
        )
    assert "a" in tree()
    assert ray_committer.commit_job(str(dest), options=options).files == 2
    assert tree() == {"a": "x", "b": "y"}


def test_a_file_of_another_task_attempt_is_refused(store, write_job):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    other = f"file:{job.task_attempt('attempt_1_m_000000_0')}/a"
    path = edit(job, 1, lambda c: c["files"][0].update(s=other))
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    assert str(path) in str(error)
    assert "not below its task attempt's directory" in str(error)


OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
NOTHING = OldFiles()


def with_old_data(*, writes_again: bool = True) -> MemoryStore:
    """Old files in three directories, of which the job writes one again unless told otherwise."""
    store = MemoryStore()
    for name in ("top", "p=1/old", "p=1/same" if writes_again else "p=1/other", "p=2/q=1/old"):
        put_file(store, f"/table/{name}", b"old")
    write_tasks(store, JOB, {0: {"p=1/same": b"new"}, 1: {"p=3/new": b"new"}, 2: {}})
    return store


def check(found: JobContext, roots: tuple[str, ...] = ()) -> OldFiles:
    """Both checks of a commit: of the job itself, and of what is where it writes."""
    manifests = loaded(found)
    preflight(found, manifests)
    return look_at_data(found, manifests, roots_of_mode(found, manifests, roots))


def cost(
    options: CommitOptions, roots: tuple[str, ...] = (), store: MemoryStore | None = None
) -> Counter[str]:
    """What the check alone asks of the store, once the manifests are loaded."""
    store = store or with_old_data()
    loads = requests(store, lambda one: loaded(context(one, options)))
    found = requests(store, lambda one: check(context(one, options), roots))
    assert loads <= found
    return found - loads


@pytest.mark.parametrize("is_cheap", [False, True])
def test_an_append_to_new_directories_costs_one_request(is_cheap: bool):
    store = with_job(
        {task: {f"p={task}/a": b"x"} for task in range(50)},
        store=MemoryStore(listing_is_cheap=is_cheap),
    )
    assert check(context(store)) == OldFiles(missing=frozenset(f"/table/p={n}" for n in range(50)))
    assert cost(CommitOptions(), store=store) == Counter(find_names=1)


def test_of_too_many_new_directories_only_those_above_others_are_told(monkeypatch: pytest.MonkeyPatch):
    store = with_job({0: {f"a={n}/b={n}/f": b"x" for n in range(3)}})
    monkeypatch.setattr(preflight_module, "MOST_NOTED", 5)
    assert check(context(store)).missing == {f"/table/a={n}" for n in range(3)}
    monkeypatch.setattr(preflight_module, "MOST_NOTED", 6)
    below = {f"/table/a={n}/b={n}" for n in range(3)}
    assert check(context(store)).missing == below | {f"/table/a={n}" for n in range(3)}


@pytest.mark.parametrize("tasks", [1, 50])
@pytest.mark.parametrize("is_cheap", [False, True])
def test_an_append_costs_one_listing_for_each_directory_that_is_there(tasks: int, is_cheap: bool):
    store = with_job(
        {task: {f"p={task}/a": b"x"} for task in range(tasks)},
        store=MemoryStore(listing_is_cheap=is_cheap),
    )
    for task in range(tasks):
        store.mkdirs(f"/table/p={task}")
    found = check(context(store))
    assert found == replace(NOTHING, there=frozenset(f"/table/p={task}" for task in range(tasks)))
    is_alone = Counter(get_status=0 if is_cheap else 1)  # is a file in the place of the directory?
    once = is_alone if tasks == 1 else Counter(find_names=1)
    assert cost(CommitOptions(), store=store) == Counter(list_status=tasks) + once


def test_the_error_mode_looks_at_data_in_the_listing_that_an_append_makes():
    store = with_job({0: {"a": b"x"}})
    options = CommitOptions(mode=ConflictMode.ERROR)
    assert check(context(store, options)) == NOTHING
    assert cost(CommitOptions(), store=store) == Counter(list_status=1)
    assert cost(options, store=store) == Counter(list_page=1)


def test_an_overwrite_lists_each_old_directory_once():
    below = ["/table/p=1", "/table/p=2", "/table/p=2/q=1"]
    assert cost(OVERWRITE) == Counter(list_page=1, list_status=len(below))


def test_a_name_that_is_there_outside_what_is_replaced_is_a_conflict():
    for options, roots in ((CommitOptions(), ()), (OVERWRITE, ("/table/p=2",))):
        with pytest.raises(CommitConflictError, match="/table/p=1/same: is there already"):
            check(context(with_old_data(), options), roots)


def test_old_files_are_sorted_by_whether_the_job_writes_their_name():
    checked = check(context(with_old_data(), OVERWRITE))
    assert [file.path for file in checked.replaced] == [
        "/table/p=1/old",
        "/table/p=2/q=1/old",
        "/table/top",
    ]
    assert [file.path for file in checked.overwritten] == ["/table/p=1/same"]
    assert {file.size for file in (*checked.replaced, *checked.overwritten)} == {3}


@pytest.mark.parametrize(
    ("roots", "replaced"),
    [
        (("/table/p=2",), ["/table/p=2/q=1/old"]),
        (("/table/p=2", "/table/p=2", "/table/p=2/q=1"), ["/table/p=2/q=1/old"]),
        (("/table/p=7",), []),
        (("/table/top",), []),
    ],
)
def test_only_files_below_the_roots_are_replaced_and_each_once(roots: tuple[str, ...], replaced):
    checked = check(context(with_old_data(writes_again=False), OVERWRITE), roots)
    assert [file.path for file in checked.replaced] == replaced


@pytest.mark.parametrize("options", [CommitOptions(), OVERWRITE])
def test_the_check_changes_nothing(options: CommitOptions):
    store = with_old_data(writes_again=options is OVERWRITE)
    before = store.files()
    check(context(store, options))
    assert store.files() == before
    assert not CHANGING & set(cost(options, store=store))


def test_an_old_directory_that_vanishes_meanwhile_has_no_files():
    store = with_old_data()

    def vanish(call: StoreCall) -> None:
        if call.paths == ("/table/p=2",):
            store.delete_directory("/table/p=2")

    checked = check(context(WrappedStore(store, before=vanish), OVERWRITE))
    assert [file.path for file in checked.replaced] == ["/table/p=1/old", "/table/top"]


def test_a_cancelled_overwrite_is_not_taken_for_one_without_old_data():
    found = context(with_old_data(), OVERWRITE)
    manifests = loaded(found)
    found.cancelled.cancel()
    with pytest.raises(CommitCancelledError):
        look_at_data(found, manifests, ModeRoots((JOB.destination,)))


def test_the_destinations_of_other_jobs_below_the_old_data_are_told():
    store = with_old_data(writes_again=False)
    write_tasks(store, new_job_attempt("/table/p=2/q=1", "job_2", 0), {})
    write_tasks(store, new_job_attempt("/table/p=3", "job_3", 0), {})
    assert check(context(store, OVERWRITE)).destinations == ("/table/p=2/q=1", "/table/p=3")
    assert check(context(store)).destinations == ("/table/p=3",)
