"""A task attempt with files and no manifest stops a commit that does not know the number of tasks."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import IncompleteJobError
from ray_committer.job_files.job_state import adopt_state
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.state import Phase
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.checks.attempts import listed_attempts, refuse_unsaved
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import run_commit, visible_files
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt, write_job
from tests.servers.fake_s3 import FakeS3Store
from tests.stages.support import JOB, KINDS, context, loaded, requests, staged_name, with_job

TASKS = {0: {"a": b"a"}, 1: {"b": b"b"}}
LATE = {"p=1/c": b"c"}


@pytest.fixture(params=[*KINDS, "uploads"])
def store(request: pytest.FixtureRequest):
    return KINDS[request.param]() if request.param in KINDS else FakeS3Store()


def with_dead_attempt(store, task: int = 2, number: int = 0, files=LATE) -> str:
    """A job of two tasks, and an attempt that has written files and saved no manifest."""
    write_job(store, JOB, TASKS)
    attempt = set_up_attempt(store, JOB, task, number)
    write_attempt(store, JOB, attempt, files)
    return attempt


def test_what_a_task_without_a_manifest_has_written_is_not_deleted(store):
    attempt = with_dead_attempt(store)
    before = {one.path for one in store.list_files(JOB.task_attempt(attempt))}
    with pytest.raises(IncompleteJobError) as caught:
        run_commit(store, JOB)
    assert f"{JOB.tasks}: 1 task attempts" in caught.value.what
    assert attempt in caught.value.what
    assert "--expect-tasks 2" in caught.value.advice
    assert adopt_state(store, JOB).phase is Phase.OPEN
    assert {one.path for one in store.list_files(JOB.task_attempt(attempt))} == before
    assert visible_files(store, JOB.destination) == {}


def test_a_lost_manifest_is_found(store):
    write_job(store, JOB, {**TASKS, 2: LATE})
    name = max(one.path for one in store.list_status(JOB.manifests))
    store.delete_file(name)
    with pytest.raises(IncompleteJobError, match=r"here: attempt_job_1_m_000002_0;"):
        run_commit(store, JOB)


def staged(task: int, attempt: int = 0) -> dict[str, bytes]:
    return {f"{directory}{staged_name('f', task, attempt)}": b"x" for directory in ("", "p=1/", "p=2/")}


def with_dead_staged_attempt(store, task: int = 2, number: int = 0) -> None:
    """A job of two tasks, and an attempt with staged files, a manifest of which was never saved."""
    write_job(store, JOB, {0: staged(0), 1: staged(1)})
    write_attempt(store, JOB, f"attempt_job_1_m_{task:06d}_{number}", staged(task, number))


@pytest.mark.parametrize("kind", KINDS)
def test_staged_files_of_a_task_without_a_manifest_are_not_deleted(kind: str):
    store = KINDS[kind]()
    with_dead_staged_attempt(store, 25, number=1)
    before = store.files(JOB.tasks)
    with pytest.raises(IncompleteJobError, match=r": 1 task attempts have.*attempt 1 of task 25 \("):
        run_commit(store, JOB)
    assert store.files(JOB.tasks) == before
    run_commit(store, JOB, CommitOptions(expected_tasks=2))
    assert visible_files(store, JOB.destination).keys() == {**staged(0), **staged(1)}.keys()


@pytest.mark.parametrize("task", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_staged_files_of_another_attempt_of_a_committed_task_do_not_count(kind: str, task: int):
    store = KINDS[kind]()
    with_dead_staged_attempt(store, task, number=1)
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 6


def test_an_attempt_with_files_of_both_kinds_is_named_once():
    store = KINDS["directories"]()
    with_dead_attempt(store, files={**LATE, **staged(2)})
    with pytest.raises(
        IncompleteJobError, match=r": 1 task attempts have .*here: attempt_job_1_m_000002_0;"
    ):
        run_commit(store, JOB)


@pytest.mark.parametrize("name", ["f", "f-0000000200000000x", ".f-0000000200000000.c000.crc"])
def test_a_staged_name_without_a_token_or_that_is_no_output_is_a_leftover(name: str):
    store = with_job({0: staged(0)}, store=KINDS["directories"]())
    (directory,) = {parent(path) for path in store.files(JOB.tasks) if "/root/" in path}
    store.write(join(directory, name), b"")
    run_commit(store, JOB)
    assert visible_files(store, JOB.destination).keys() == staged(0).keys()


def test_a_second_token_in_the_names_of_a_saved_task_accuses_nobody():
    store = with_job({0: {staged_name("f-0000000500000000"): b"x"}}, store=KINDS["directories"]())
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 1


@pytest.mark.parametrize("number", [2, 3])
def test_who_knows_the_number_of_tasks_decides(store, number: int):
    with_dead_attempt(store)
    options = CommitOptions(expected_tasks=number)
    if number == 2:
        run_commit(store, JOB, options)
        assert visible_files(store, JOB.destination) == {"a": b"a", "b": b"b"}
        return
    with pytest.raises(IncompleteJobError, match="3 tasks succeeded but only 2 manifests"):
        run_commit(store, JOB, options)


def test_who_names_the_attempts_decides(store):
    with_dead_attempt(store)
    refs = loaded(context(store)).manifests
    named = tuple(CommittedTask(ref.name, ref.digest, ref.task_attempt_id) for ref in refs)
    run_commit(store, JOB, CommitOptions(committed_tasks=named))
    assert len(visible_files(store, JOB.destination)) == 2


@pytest.mark.parametrize("task", [0, 1])
def test_another_attempt_of_a_task_that_has_a_manifest_does_not_count(store, task: int):
    """It died, or was the slower one; Ray and Spark run such a task again."""
    with_dead_attempt(store, task, number=1)
    run_commit(store, JOB)
    assert visible_files(store, JOB.destination) == {"a": b"a", "b": b"b"}


def test_an_attempt_that_was_aborted_or_has_no_file_does_not_count(store):
    attempt = with_dead_attempt(store)
    set_up_attempt(store, JOB, 7, 0)
    abort_task(store, JOB, attempt)
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_no_output_do_not_count(kind: str):
    store = KINDS[kind]()
    with_dead_attempt(store, files={"p=1/.nfs0001": b"", "_x": b""})
    run_commit(store, JOB)
    assert len(visible_files(store, JOB.destination)) == 2


def test_many_dead_attempts_are_named_at_once(store):
    setup_job(store, JOB)
    for task in range(30):
        attempt = set_up_attempt(store, JOB, task, 0)
        write_attempt(store, JOB, attempt, {f"f{task}": b""})
        if task == 0:
            commit_attempt(store, JOB, 0, attempt)
    with pytest.raises(IncompleteJobError, match=r"m_000020_0 \| and 9 more"):
        run_commit(store, JOB)


def test_an_attempt_of_an_unknown_form_counts_unless_a_manifest_names_it(store):
    write_job(store, JOB, TASKS)
    store.mkdirs(join(JOB.tasks, "mine"))
    store.write(join(JOB.tasks, "mine", "manifest-1"), b"x")
    with pytest.raises(IncompleteJobError, match=r"here: mine;"):
        run_commit(store, JOB)


def test_the_example_of_three_tasks_is_not_committed_as_two(dest: Path):
    job = ray_committer.setup_job(str(dest))
    for task in range(3):
        with ray_committer.task_attempt(str(dest), job, task) as attempt:
            attempt.open(f"part-{task}").close()
    lost = max(Path(dest, "_temporary", job, "00", "manifests").iterdir())
    lost.unlink()
    with pytest.raises(IncompleteJobError):
        ray_committer.commit_job(str(dest), job)
    with pytest.raises(IncompleteJobError):
        ray_committer.plan_job(str(dest), job)
    assert Path(attempt.directory, "part-2").exists()


def test_what_the_attempts_have_handed_out_is_what_is_committed(dest: Path, tree):
    job = ray_committer.setup_job(str(dest))
    committed = []
    for task, text in ((0, "a"), (1, "b"), (1, "c")):
        with ray_committer.task_attempt(str(dest), job, task, None) as attempt:
            Path(attempt.path(f"part-{task}-{text}")).write_text(text)
        committed.append(attempt.committed)
    with pytest.raises(IncompleteJobError, match="2 of 3 tasks have handed out nothing"):
        ray_committer.commit_job(str(dest), job, committed=[None, committed[0], None])
    report = ray_committer.commit_job(str(dest), job, committed=committed[:2])
    assert (report.manifests, tree()) == (2, {"part-0-a": "a", "part-1-b": "b"})


def test_a_record_of_some_attempts_is_for_these(dest: Path, tree):
    job = ray_committer.setup_job(str(dest))
    with ray_committer.task_attempt(str(dest), job, 0, None) as attempt:
        attempt.open("a").close()
    ray_committer.record_job(str(dest), job, committed=[attempt.committed])
    ray_committer.commit_job(str(dest), job)
    assert tree() == {"a": ""}


@pytest.mark.parametrize("tasks", [2, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_at_staged_files_costs_one_listing_for_each_directory(kind: str, tasks: int):
    def look(store) -> None:
        with listed_attempts(context(store)) as attempts:
            pass
        refuse_unsaved(context(store), manifests, *attempts)

    store = with_job({task: staged(task) for task in range(tasks)}, store=KINDS[kind]())
    manifests = loaded(context(store))
    # The attempts, the keys, the roots; two partitions, and a root for each task.
    assert requests(store, look) == Counter(list_status=3 + 2 + tasks)


@pytest.mark.parametrize("kind", KINDS)
def test_it_costs_one_listing_and_one_for_each_attempt_of_a_task_without_a_manifest(kind: str):
    def look(store) -> None:
        found = context(store)
        with listed_attempts(found) as attempts:
            pass
        with suppress(IncompleteJobError):
            refuse_unsaved(found, manifests, *attempts)

    store = KINDS[kind]()
    with_dead_attempt(store, 0, number=1)
    manifests = loaded(context(store))
    listings = 2 if store.real_directories else 1  # also where files of all tasks can lie side by side
    assert requests(store, look) == Counter(list_status=listings)
    attempt = set_up_attempt(store, JOB, 5, 0)
    assert requests(store, look) == Counter(list_status=listings, list_files=1)
    write_attempt(store, JOB, attempt, LATE)
    assert requests(store, look)["list_files"] == 1
