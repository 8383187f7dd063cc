"""The committer as a whole: tasks and jobs that end in every order, beside others.

Source: Hadoop TestManifestCommitProtocol, by scenario.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobNotFoundError,
    TaskCommitError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.success import decode_success
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.context import JobContext
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore
from ray_committer.work.worker import Worker
from tests.conftest import visible_files
from tests.threads import running_threads

ATTEMPT = "attempt_1_m_000005_0"


def start_task(store, job: JobAttempt, name: str = "unfinished") -> Path:
    """A task attempt that is still running, and its file."""
    directory, _ = setup_task(store, job, ATTEMPT)
    file = Path(directory, name)
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    return file


def commit(store, job: JobAttempt, stamp: str) -> None:
    """Commit the task attempt to the job with this stamp."""
    commit_task(store, job, task_id="task_1_m_000005", task_attempt_id=ATTEMPT, stamp=stamp, attempts=1)


def stamp_of(store, job: JobAttempt) -> str:
    seen = read_state(store, job)
    assert seen is not None
    return seen.state.stamp


def test_aborting_a_task_that_did_nothing_is_harmless_and_repeatable(store, write_job):
    job = write_job({})
    assert abort_task(store, job, ATTEMPT) is False
    setup_task(store, job, ATTEMPT)
    assert abort_task(store, job, ATTEMPT) is True
    assert abort_task(store, job, ATTEMPT) is False
    assert Path(job.manifests).is_dir()


def test_aborting_a_job_that_did_nothing_leaves_nothing_and_is_repeatable(write_job, dest: Path):
    write_job({})
    assert ray_committer.abort_job(str(dest), "job_1") is True
    assert not (dest / "_temporary").exists()
    options = CommitOptions(job_attempt=0)
    assert ray_committer.abort_job(str(dest), "job_1", options=options) is False
    with pytest.raises(JobNotFoundError):
        ray_committer.abort_job(str(dest), "job_1")


def test_a_job_none_of_whose_tasks_committed_is_refused_and_can_be_aborted(store, write_job, dest, tree):
    start_task(store, write_job({}))
    with pytest.raises(IncompleteJobError, match="contains no task manifest"):
        ray_committer.commit_job(str(dest))
    assert ray_committer.abort_job(str(dest)) is True
    assert tree() == {}


def test_output_of_a_task_that_did_not_commit_is_never_visible(store, write_job, dest: Path, tree):
    start_task(store, write_job({0: {"a": "x"}}))
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}
    assert not (dest / "_temporary").exists()


def test_aborting_a_task_and_then_the_job_leaves_nothing(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    file = start_task(store, job)
    abort_task(store, job, ATTEMPT)
    assert not file.exists()
    assert ray_committer.abort_job(str(dest)) is True
    assert not (dest / "_temporary").exists()
    assert tree() == {}


def test_a_task_that_runs_on_after_its_job_was_aborted_cannot_commit(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    file, stamp = start_task(store, job), stamp_of(store, job)
    assert ray_committer.abort_job(str(dest)) is True
    file.parent.mkdir(parents=True)
    file.write_text("written by one that does not know")
    with pytest.raises(TaskCommitError, match="was never set up or is over"):
        commit(store, job, stamp)
    with pytest.raises(JobNotFoundError):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


def test_a_task_of_an_aborted_job_cannot_commit_to_another_one_of_its_id(store, write_job, dest, tree):
    job = write_job({})
    start_task(store, job)
    stamp = stamp_of(store, job)
    assert ray_committer.abort_job(str(dest)) is True
    write_job({0: {"a": "x"}})
    start_task(store, job)
    with pytest.raises(TaskCommitError, match="is another job with the same id"):
        commit(store, job, stamp)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


def test_a_task_commits_again_as_another_attempt_but_not_after_the_job(store, write_job, dest, tree):
    job = write_job({0: {"a": "x"}})
    start_task(store, job, "b")
    stamp = stamp_of(store, job)
    commit(store, job, stamp)
    ray_committer.commit_job(str(dest))
    with pytest.raises(TaskCommitError, match=f"{ATTEMPT}: is gone"):
        commit(store, job, stamp)
    assert tree() == {"a": "x", "b": "x"}


def test_an_abort_that_the_store_refuses_is_finished_by_the_next_one(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def fail(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise OSError("Simulated failure of delete")

    broken = WrappedStore(store, before=fail)
    executor = InlineExecutor(lambda permits: Worker(broken, job, permits, in_driver=True))
    context = JobContext(GuardedStore(broken, executor.permits), job, CommitOptions(), executor)
    with pytest.raises(CommitStateUnknownError, match=r"Simulated.*run the same command again"):
        abort_job(context)
    ray_committer.abort_job(str(dest), "job_1")
    assert not (dest / "_temporary").exists()
    assert tree() == {}


def test_another_process_aborts_the_task_of_a_dead_one(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    file = start_task(store, job)
    assert abort_task(LocalStore(StoreSpec("file")), job, ATTEMPT) is True
    assert not file.exists()
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


def test_the_report_has_the_numbers_of_the_marker(write_job, dest: Path, tmp_path: Path):
    write_job({task: {f"p={task}/f{n}": "xx" for n in range(5)} for task in range(3)})
    options = CommitOptions(summary_directory=str(tmp_path / "reports"))
    ray_committer.commit_job(str(dest), options=options)
    marker, report = (
        decode_success(path.read_bytes(), str(path))
        for path in (dest / "_SUCCESS", tmp_path / "reports" / "summary-job_1.json")
    )
    assert marker is not None
    assert report is not None
    assert marker.iostatistics is not None
    assert report.iostatistics is not None
    for name, number in (("committer_files_committed", 15), ("committer_bytes_committed", 30)):
        assert marker.iostatistics.counters[name] == report.iostatistics.counters[name] == number
    assert (report.success, report.job_id) == (True, "job_1")
    assert sorted(report.filenames or ()) == sorted(marker.filenames or ())


@pytest.mark.parametrize("fails", [False, True])
def test_no_thread_outlives_a_commit(write_job, dest: Path, fails: bool):
    before = running_threads()
    write_job({0: {"p=1/a": "x"}, 1: {"p=1/b": "y"}})
    if fails:
        (dest / "p=1").write_text("in the way")
    outcome = pytest.raises(CommitConflictError) if fails else nullcontext()
    with outcome:
        ray_committer.commit_job(str(dest), executor="threads")
    assert running_threads() - before == set()


def test_a_directory_as_output_arrives_whole_with_its_hidden_files(write_job, dest: Path, tree):
    files = {
        "part-00000/data": "d",
        "part-00000/index": "i",
        "part-00000/.hidden": "h",
        "part-00000/_metadata": "m",
        "part-00000/empty": "",
    }
    write_job({0: files})
    ray_committer.commit_job(str(dest))
    assert tree() == files


def test_tasks_that_commit_at_once_into_one_directory_do_not_nest_it(write_job, dest: Path, tree):
    write_job({})
    start = Barrier(6)

    def run(task: int) -> None:
        with ray_committer.task_attempt(str(dest), "job_1", task) as attempt:
            Path(attempt.path(f"sub/f{task}")).write_text(str(task))
            start.wait(30)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    ray_committer.commit_job(str(dest))
    assert tree() == {f"sub/f{task}": str(task) for task in range(6)}
    assert not (dest / "sub" / "sub").exists()


def test_jobs_at_once_into_directories_of_like_names_do_not_meet(tmp_path: Path):
    tables = [tmp_path / name for name in ("table", "table-2", "table-22")]
    start = Barrier(len(tables))

    def run(table: Path) -> Outcome:
        ray_committer.setup_job(str(table), "job_1")
        with ray_committer.task_attempt(str(table), "job_1", 0) as attempt:
            Path(attempt.path("p=1/f")).write_text(table.name)
            start.wait(30)
        return ray_committer.commit_job(str(table), "job_1").outcome

    with ThreadPoolExecutor(len(tables)) as pool:
        assert list(pool.map(run, tables)) == [Outcome.COMMITTED] * 3
    assert [visible_files(table) for table in tables] == [{"p=1/f": table.name} for table in tables]
    assert not any((table / "_temporary").exists() for table in tables)


@pytest.mark.parametrize("url", ["oss://bucket/table", "wasb://c@a.blob.core.windows.net/table"])
def test_every_operation_refuses_a_store_whose_rename_is_a_copy(url: str):
    operations = (ray_committer.setup_job, ray_committer.commit_job, ray_committer.abort_job)
    for operation in operations:
        with pytest.raises(ray_committer.errors.StoreRefusedError):
            operation(url, "job_1")
