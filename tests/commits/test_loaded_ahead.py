"""Exactly what the driver names is committed, whatever was loaded of it before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer.errors import (
    IncompleteJobError,
    ManifestError,
    MissingManifestsError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.pack import MOST_ENTRIES
from ray_committer.protocol.paths import is_inside
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from ray_committer.work.load_ahead import LoadAhead
from tests.results import results_of
from tests.stages.support import JOB, KINDS, context, each_of, phase_of, stamp_of_job, with_job

FILES = {0: {"a": b"x"}, 1: {"p=1/b": b"yy"}, 2: {"p=1/c": b"", "p=2/d": b"zzz"}}
store = each_of()


def names_all(tasks: Sequence[CommittedTask], **more: Any) -> CommitOptions:
    """As a driver commits that has the results of all tasks."""
    return CommitOptions(expected_tasks=len(tasks), committed_tasks=tuple(tasks), **more)


def unsent(tasks: Sequence[CommittedTask]) -> list[CommittedTask]:
    """The same results, without the manifests."""
    return [replace(task, text=None) for task in tasks]


def told(store: StoreOperations, tasks: Sequence[CommittedTask]) -> LoadAhead:
    """What is loaded of `tasks` before the commit."""
    ahead = LoadAhead(lambda: context(store), stamp_of_job(store))
    ahead.add(tasks)
    return ahead


def expected() -> dict[str, bytes]:
    return {name: data for files in FILES.values() for name, data in files.items()}


@pytest.mark.parametrize("ahead_of_commit", [0, 1, 3])
@pytest.mark.parametrize("with_text", [True, False])
def test_all_that_the_driver_names_is_committed(
    store: MemoryStore, ahead_of_commit: int, with_text: bool
):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB, with_text=with_text)
    ahead = told(store, tasks[:ahead_of_commit])
    result = run_commit(store, JOB, names_all(tasks), ahead=ahead)
    assert (result.manifests, result.moved) == (3, 4)
    assert visible_files(store, JOB.destination) == expected()


def reads(store: StoreOperations, tasks: Sequence[CommittedTask], ahead: LoadAhead | None) -> int:
    """How often the commit reads a manifest."""
    met: list[StoreCall] = []
    run_commit(WrappedStore(store, before=met.append), JOB, names_all(tasks), ahead=ahead)
    places = (JOB.manifests, JOB.frozen)
    return sum(
        call.operation == "read" and any(is_inside(call.paths[0], place) for place in places)
        for call in met
    )


@pytest.mark.parametrize(
    ("kind", "tasks"), [("directories", 200), ("etags", 40), ("flat", 40), ("generations", 40)]
)
def test_a_manifest_that_the_driver_knows_is_not_read(kind: str, tasks: int):
    store = with_job({n: {f"part-{n}": b"x"} for n in range(tasks)}, store=KINDS[kind]())
    assert reads(store, results_of(store, JOB), None) == 0


def test_a_manifest_that_was_read_while_tasks_ran_is_not_read_again():
    store = with_job(FILES)
    tasks = unsent(results_of(store, JOB))
    assert reads(store, tasks, told(store, tasks[:2])) == 1


def test_an_attempt_that_was_told_and_does_not_count_leaves_no_file(store: MemoryStore):
    write_job(store, JOB, FILES)
    ahead = told(store, results_of(store, JOB))
    attempt = f"attempt_{JOB.job_id}_m_000001_7"
    write_attempt(store, JOB, set_up_attempt(store, JOB, 1, 7), {"p=1/second": b"again"})
    commit_attempt(store, JOB, 1, attempt)
    tasks = results_of(store, JOB)
    assert tasks[1].task_attempt_id == attempt
    run_commit(store, JOB, names_all(tasks), ahead=ahead)
    left = {name: data for name, data in expected().items() if name != "p=1/b"}
    assert visible_files(store, JOB.destination) == left | {"p=1/second": b"again"}


def test_a_task_that_was_told_and_is_not_named_leaves_no_file_and_no_directory(store: MemoryStore):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB)
    options = names_all(tasks[:2], ignore_other_attempts=True)
    run_commit(store, JOB, options, ahead=told(store, tasks))
    assert visible_files(store, JOB.destination) == {"a": b"x", "p=1/b": b"yy"}
    assert store.get_status(f"{JOB.destination}/p=2") is None


def refused(
    store: StoreOperations, tasks: Sequence[CommittedTask], ahead: LoadAhead | None = None, **more: Any
) -> RayCommitterError:
    """The error of a commit that leaves nothing visible and the job undecided."""
    with pytest.raises(RayCommitterError) as failed:
        run_commit(store, JOB, names_all(tasks, **more), ahead=ahead)
    assert visible_files(store, JOB.destination) == {}
    assert phase_of(store) in ("open", "declared")
    return failed.value


@pytest.mark.parametrize("with_text", [True, False])
def test_a_manifest_that_the_driver_does_not_name_stops_the_commit(store: MemoryStore, with_text: bool):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB, with_text=with_text)
    error = refused(store, tasks[:2], told(store, tasks[:2]))
    assert isinstance(error, PreflightError)
    assert tasks[2].manifest in str(error)


@pytest.mark.parametrize("with_text", [True, False])
@pytest.mark.parametrize("ignores", [True, False])
def test_a_manifest_that_is_gone_stops_the_commit(store: MemoryStore, with_text: bool, ignores: bool):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB, with_text=with_text)
    ahead = told(store, tasks)
    store.delete_file(f"{JOB.manifests}/{tasks[1].manifest}")
    error = refused(store, tasks, ahead, ignore_other_attempts=ignores)
    assert isinstance(error, MissingManifestsError)
    assert tasks[1].manifest in str(error)


def replace_manifest(store: StoreOperations, task: CommittedTask, old: bytes, new: bytes) -> None:
    path = f"{JOB.manifests}/{task.manifest}"
    store.write(path, store.read(path).replace(old, new))


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("ignores", [True, False])
def test_a_manifest_that_another_attempt_has_replaced_stops_the_commit(
    store: MemoryStore, is_told: bool, ignores: bool
):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB)
    ahead = told(store, tasks) if is_told else None
    replace_manifest(store, tasks[1], b"_000001_0", b"_000001_12")
    error = refused(store, tasks, ahead, ignore_other_attempts=ignores)
    assert isinstance(error, PreflightError)
    assert f"{tasks[1].manifest}: is not what the successful task attempt saved" in str(error)


@pytest.mark.parametrize("kind", ["directories", "flat"])
def test_of_a_manifest_that_was_replaced_by_one_of_its_size_the_attempt_that_counts_is_committed(
    kind: str,
):
    store = with_job(FILES, store=KINDS[kind]())
    tasks = results_of(store, JOB)
    write_attempt(store, JOB, set_up_attempt(store, JOB, 1, 7), {"p=1/b": b"no"})
    commit_attempt(store, JOB, 1, f"attempt_{JOB.job_id}_m_000001_7")
    replaced = results_of(store, JOB)[1]
    assert (replaced.size, replaced.task_attempt_id) != (0, tasks[1].task_attempt_id)
    assert replaced.size == tasks[1].size
    run_commit(store, JOB, names_all(tasks))
    assert visible_files(store, JOB.destination) == expected()


def test_of_a_manifest_that_was_replaced_by_one_of_its_size_nothing_is_committed_if_it_must_be_read(
    store: MemoryStore,
):
    write_job(store, JOB, FILES)
    tasks = unsent(results_of(store, JOB))
    replace_manifest(store, tasks[1], b"_000001_0", b"_000001_7")
    assert isinstance(refused(store, tasks), PreflightError)


@pytest.mark.parametrize("text", [b"", b"{}", b"[" * 5000, b"\xff" * 100, b'{"files": 1}'])
def test_a_text_that_is_not_the_manifest_is_ignored(store: MemoryStore, text: bytes):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB)
    tasks[1] = replace(tasks[1], text=text)
    run_commit(store, JOB, names_all(tasks))
    assert visible_files(store, JOB.destination) == expected()


@pytest.mark.parametrize("name", ["", "..", "../state/x", "a/b", "\0", "x" * 300])
def test_a_name_that_cannot_be_that_of_a_manifest_stops_the_commit(store: MemoryStore, name: str):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB)
    tasks[1] = replace(tasks[1], manifest=name)
    assert isinstance(refused(store, tasks, told(store, tasks)), MissingManifestsError)


def test_two_results_for_one_manifest_stop_the_commit(store: MemoryStore):
    write_job(store, JOB, FILES)
    tasks = results_of(store, JOB)
    both = [*tasks, replace(tasks[1], digest="0" * 64)]
    assert isinstance(refused(store, both, told(store, tasks)), RayCommitterError)


def test_a_job_without_a_result_is_refused(store: MemoryStore):
    write_job(store, JOB, FILES)
    assert isinstance(refused(store, []), IncompleteJobError | PreflightError)


@pytest.mark.parametrize("with_text", [True, False])
def test_a_bad_manifest_is_reported_by_its_name(store: MemoryStore, with_text: bool):
    write_job(store, JOB, FILES)
    path = f"{JOB.manifests}/{results_of(store, JOB)[1].manifest}"
    store.write(path, store.read(path).replace(b'"jobId":"job_1"', b'"jobId":"job_2"'))
    tasks = results_of(store, JOB, with_text=with_text)
    error = refused(store, tasks, told(store, tasks))
    assert isinstance(error, ManifestError)
    assert path in str(error)
    assert "belongs to job job_2" in str(error)


@pytest.mark.parametrize("with_text", [True, False])
@pytest.mark.parametrize("is_told", [True, False])
def test_two_files_of_one_name_are_found_among_all_tasks(
    store: MemoryStore, with_text: bool, is_told: bool
):
    write_job(store, JOB, {**FILES, 3: {"p=1/b": b"the same"}})
    tasks = results_of(store, JOB, with_text=with_text)
    error = refused(store, tasks, told(store, tasks[:2]) if is_told else None)
    assert isinstance(error, PreflightError)
    assert "p=1/b: would be written more than once" in str(error)


def test_a_place_outside_the_allowed_roots_is_refused_although_it_was_loaded_before(store: MemoryStore):
    write_job(store, JOB, FILES)
    path = f"{JOB.manifests}/{results_of(store, JOB)[1].manifest}"
    store.write(path, store.read(path).replace(b"/table/p=1/b", b"/other/p=1/b"))
    tasks = results_of(store, JOB)
    error = refused(store, tasks, told(store, tasks))
    assert isinstance(error, PreflightError)
    assert "/other/p=1/b: is outside the destination" in str(error)


def in_two_packs() -> dict[int, dict[str, bytes]]:
    return {0: {f"p=1/{n}": b"" for n in range(MOST_ENTRIES)}, 1: {"p=2/last": b"x"}}


def test_a_driver_that_dies_before_the_record_loses_nothing():
    store = with_job(in_two_packs())
    tasks = unsent(results_of(store, JOB))
    ahead = told(store, tasks)
    early = {status.path for status in store.list_status(JOB.packs)}
    assert len(early) == 1

    def die(call: StoreCall) -> None:
        if call.operation == "advance" and "recorded" in str(call.paths):
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=die), JOB, names_all(tasks), ahead=ahead)
    assert visible_files(store, JOB.destination) == {}
    result = run_commit(store, JOB, CommitOptions(assume_complete=True))
    assert result.moved == MOST_ENTRIES + 1
    assert len(visible_files(store, JOB.destination)) == MOST_ENTRIES + 1
    assert store.get_status(JOB.directory) is None


def test_the_report_does_not_depend_on_who_has_loaded_the_manifests(dest: Path):
    reports, markers = [], []
    for name, is_named in (("read", False), ("told", True)):
        table, results = dest / name, list[CommittedTask | None]()
        ray_committer.setup_job(str(table), "job_1")
        for task in range(3):
            with ray_committer.task_attempt(str(table), "job_1", task) as attempt:
                with attempt.open(f"p={task}/part") as file:
                    file.write(b"x" * task)
                Path(attempt.directory, f".hidden-{task}").write_text("no output")
            results.append(attempt.committed)
        committed = results if is_named else None
        reports.append(ray_committer.commit_job(str(table), "job_1", committed=committed))
        markers.append(json.loads((table / "_SUCCESS").read_text())["iostatistics"]["counters"])
    read, told = ((one.files, one.bytes, one.manifests, one.moved, len(one.notices)) for one in reports)
    assert read == told == (3, 3, 3, 3, 1)
    of_tasks = [name for name in markers[0] if name.startswith("committer_task_")]
    assert of_tasks
    assert [markers[0][name] for name in of_tasks] == [markers[1][name] for name in of_tasks]
