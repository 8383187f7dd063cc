"""An aborted task attempt leaves no file; the rest of the job stays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import PathError
from ray_committer.stages.abort_task import abort_task
from ray_committer.testing import MemoryStore, SimulatedCrash, WrappedStore, fail_at
from ray_committer.testing.harness import source_of
from ray_committer.testing.harness import write_attempt as write_files
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule
from tests.stages.support import JOB, manifest_path, requests, staged_name, with_job


def write_attempt(dest: Path, task: int, attempt: int, name: str, text: str | None) -> None:
    with ray_committer.task_attempt(str(dest), "job_1", task, attempt) as running:
        Path(running.path(name)).touch()
        Path(running.path(name)).write_text(text)  # type: ignore[arg-type]


def test_a_failed_attempt_leaves_nothing(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    write_attempt(dest, 0, 0, "good", "1")
    with pytest.raises(TypeError):
        write_attempt(dest, 1, 0, "bad", None)  # fails after it has made its file
    assert len(list((dest / "_temporary/job_1/00/tasks").glob("attempt_*"))) == 1
    ray_committer.commit_job(str(dest), "job_1")
    assert tree() == {"good": "1"}


ATTEMPT = "attempt_job_1_m_000000_0"
FILES = {f"p={number}/a": b"x" for number in range(4)}


def with_two_tasks() -> MemoryStore:
    return with_job({0: FILES, 1: {"b": b"y"}})


def test_all_files_of_the_attempt_go_and_those_of_other_attempts_stay():
    store = with_two_tasks()
    assert abort_task(store, JOB, ATTEMPT) is True
    assert list(store.files(JOB.tasks).values()) == [b"y"]
    assert store.get_status(JOB.task_attempt(ATTEMPT)) is None
    assert store.get_status(manifest_path(0)) is not None


@pytest.mark.parametrize("files", [1, 40])
def test_staged_files_go_by_their_names_and_those_of_other_attempts_stay(files: int):
    store = with_two_tasks()
    sources = {}
    for attempt in (1, 10):
        attempt_id = f"attempt_job_1_m_000002_{attempt}"
        names = [staged_name(f"p=1/{number}", 2, attempt) for number in range(files)]
        write_files(store, JOB, attempt_id, dict.fromkeys(names, b"x"))
        sources[attempt] = {source_of(JOB, attempt_id, name) for name in names}
    before = store.files()
    for _ in range(2):
        abort_task(store, JOB, "attempt_job_1_m_000002_10", sources[10])
    assert before.keys() - store.files().keys() == sources[10]


def test_an_attempt_that_is_gone_or_never_was_leaves_nothing_to_do():
    store = with_two_tasks()
    before = store.files()
    assert abort_task(store, JOB, "attempt_job_1_m_000009_0") is False
    assert store.files() == before
    assert abort_task(store, JOB, ATTEMPT) is True
    assert abort_task(store, JOB, ATTEMPT) is False
    assert abort_task(MemoryStore(), JOB, ATTEMPT) is False


def test_aborting_an_attempt_costs_one_request_however_many_files_it_has():
    found = requests(with_two_tasks(), lambda one: abort_task(one, JOB, ATTEMPT))
    assert found == Counter(delete_directory=1)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_deletion_that_fails_is_an_error_and_the_files_stay(error: type[OSError]):
    store = with_two_tasks()
    before = store.files()
    with pytest.raises(error):
        abort_task(WrappedStore(store, before=fail_at(1, error)), JOB, ATTEMPT)
    assert store.files() == before


def test_a_deletion_whose_answer_is_lost_can_be_repeated():
    store = with_two_tasks()
    with pytest.raises(TimeoutError):
        abort_task(WrappedStore(store, after=fail_at(1)), JOB, ATTEMPT)
    assert abort_task(store, JOB, ATTEMPT) is False


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_WITHIN, FaultKind.CRASH_AFTER])
def test_an_abort_that_crashed_is_finished_by_the_next(kind: FaultKind):
    store = with_two_tasks()
    faulty = FaultSchedule(0, 1, (Fault(kind, 1),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        abort_task(faulty, JOB, ATTEMPT)
    assert abort_task(store, JOB, ATTEMPT) is (kind is not FaultKind.CRASH_AFTER)
    assert list(store.files(JOB.tasks).values()) == [b"y"]


@pytest.mark.parametrize("attempt", ["", ".", "..", "../../job_2"])
def test_an_id_that_is_not_a_name_deletes_nothing(attempt: str):
    def abort(one) -> None:
        with pytest.raises(PathError, match="task attempt id"):
            abort_task(one, JOB, attempt)

    assert requests(with_two_tasks(), abort) == Counter()


def test_a_file_in_the_place_of_the_directory_is_an_error_and_stays():
    store = with_two_tasks()
    store.write(f"{JOB.tasks}/odd", b"x")
    with pytest.raises(NotADirectoryError):
        abort_task(store, JOB, "odd")
    assert store.read(f"{JOB.tasks}/odd") == b"x"
