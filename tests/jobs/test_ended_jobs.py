"""What is said of a named job that is gone: what the log of its table says, else that it is unknown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    JobGoneError,
)
from ray_committer.options import CommittedTask
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, run_abort
from tests.cli.commands import run
from tests.commits.tables import AT_ONCE, THIRD
from tests.opening import opening
from tests.stages.support import JOB
from tests.table_jobs.tables_in_use import (
    NEW,
    committed,
    kinds_of,
    resolve,
    stopped,
    stopped_after_commit,
    write,
)
from tests.tables.support import table_on

pytestmark = pytest.mark.usefixtures("no_pauses")

Kind = Callable[[], MemoryStore]
MEMORY = "s3://bucket/table"
"""Any URL: the store is that of the test."""


def of_another_job(kind: Kind) -> MemoryStore:
    """A table with the files of two jobs, of which only the second one is in ``_SUCCESS``."""
    store = table_on(kind())
    committed(store, NEW, JOB)
    committed(store, {"day=1/third": b"3"}, THIRD)
    return store


@pytest.mark.parametrize("number", [None, 0])
def test_a_job_that_is_gone_was_committed_if_the_log_says_so(kind: Kind, number: int | None):
    store = of_another_job(kind)
    with opening(store):
        report = ray_committer.commit_job(
            MEMORY, JOB.job_id, executor="inline", options=AT_ONCE.changed(job_attempt=number)
        )
    assert (report.outcome, report.table_version) == (Outcome.ALREADY_COMMITTED, 2)
    assert "says that job job_1 is committed" in report.notices[0]


def test_the_log_names_the_attempt_that_was_committed(kind: Kind):
    store = table_on(kind())
    committed(store, NEW, new_job_attempt("/table", JOB.job_id, 2))
    committed(store, {"day=1/third": b"3"}, THIRD)
    with opening(store):
        assert ray_committer.commit_job(MEMORY, JOB.job_id).job_attempt == 2
        with pytest.raises(JobGoneError):
            ray_committer.commit_job(MEMORY, JOB.job_id, options=AT_ONCE.changed(job_attempt=1))


def test_an_abort_of_a_job_that_the_log_says_is_committed_is_refused_and_names_the_undo(kind: Kind):
    store = of_another_job(kind)
    before = store.files()
    for undo in (False, True):
        with opening(store), pytest.raises(CommitRecordExistsError, match=r"table undo \S+/table 2$"):
            ray_committer.abort_job(MEMORY, JOB.job_id, undo=undo)
    assert store.files() == before


@pytest.mark.parametrize("has_claim", [False, True])
def test_a_job_that_the_log_says_was_aborted_was_aborted(kind: Kind, has_claim: bool):
    if has_claim:
        store = stopped(kind())
        resolve(store)
    else:
        store = table_on(kind())
        write(store, NEW, JOB, AT_ONCE)
        assert run_abort(store, JOB)
    assert "abort" in kinds_of(store, 0)
    with opening(store):
        with pytest.raises(CommitAbortedError, match="says that job job_1 was aborted") as caught:
            ray_committer.commit_job(MEMORY, JOB.job_id)
        assert caught.value.exit_code == 1
        assert ray_committer.abort_job(MEMORY, JOB.job_id) is False


def test_an_aborted_attempt_does_not_hide_the_one_that_was_committed(kind: Kind):
    store = table_on(kind())
    second = new_job_attempt("/table", JOB.job_id, 1)
    setup_job(store, JOB)
    committed(store, NEW, second)  # which aborts the first
    run_abort(store, JOB)
    committed(store, {"day=1/third": b"3"}, THIRD)
    with opening(store):
        assert ray_committer.commit_job(MEMORY, JOB.job_id).job_attempt == 1


@pytest.mark.parametrize("new", [stopped, stopped_after_commit])
def test_a_claim_without_an_end_is_ended_by_the_command_that_is_named(kind: Kind, new):
    store = new(kind())
    before = store.files()
    for function in (ray_committer.commit_job, ray_committer.abort_job, ray_committer.plan_job):
        named = pytest.raises(CommitStateUnknownError, match=r"table resolve \S+/table job_1$")
        with opening(store), named:
            function(MEMORY, JOB.job_id)
    assert store.files() == before
    resolve(store)
    if new is stopped_after_commit:
        with opening(store):
            assert ray_committer.commit_job(MEMORY, JOB.job_id).outcome is Outcome.ALREADY_COMMITTED


def test_a_driver_that_knows_its_tasks_is_not_told_of_an_earlier_job_of_its_id(kind: Kind):
    store = of_another_job(kind)
    task = CommittedTask("task_1_m_000000-manifest.json", "0" * 64, "attempt_1_m_000000_0")
    options = AT_ONCE.changed(job_attempt=0, expected_tasks=1, committed_tasks=(task,))
    with opening(store), pytest.raises(JobGoneError):
        ray_committer.commit_job(MEMORY, JOB.job_id, options=options)


def test_a_log_that_cannot_be_read_leaves_it_unknown(kind: Kind):
    store = of_another_job(kind)
    path = next(path for path in store.files() if path.endswith("001.entry"))
    store.write(path, b"damaged")
    with (
        opening(store),
        pytest.raises(CommitStateUnknownError, match="not known what became of job job_9"),
    ):
        ray_committer.commit_job(MEMORY, "job_9")


def no_directory(dest: Path) -> None:
    shutil.rmtree(dest, ignore_errors=True)


def a_file(dest: Path) -> None:
    no_directory(dest)
    dest.write_text("another program's")


def a_marker_of_another(dest: Path) -> None:
    with ray_committer.task_attempt(str(dest), ray_committer.setup_job(str(dest), "job_2"), 0):
        pass
    ray_committer.commit_job(str(dest))


COMMANDS = {
    "commit": ("commit", "DEST", "--job-id", "job_1"),
    "of an attempt": ("commit", "DEST", "--job-id", "job_1", "--attempt", "0"),
    "with tasks": ("commit", "DEST", "--job-id", "job_1", "--expect-tasks", "1"),
    "plan": ("commit", "DEST", "--job-id", "job_1", "--dry-run"),
    "abort": ("abort", "DEST", "--job-id", "job_1"),
    "undo": ("abort", "DEST", "--job-id", "job_1", "--undo"),
    "abort as a plan": ("abort", "DEST", "--job-id", "job_1", "--dry-run"),
    "validate": ("validate", "DEST", "--job-id", "job_1"),
    "resolve": ("table", "resolve", "DEST", "job_1"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("spoil", [no_directory, a_file, a_marker_of_another])
def test_a_named_job_whose_traces_are_gone_is_unknown_to_each_command(
    dest: Path, spoil: Callable[[Path], None], command: tuple[str, ...]
):
    spoil(dest)
    done = run(*[str(dest) if word == "DEST" else word for word in command])
    assert done.exit_code == 3, done.stderr
    assert str(dest) in done.stderr
    assert "Traceback" not in done.stderr
