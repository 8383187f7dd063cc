"""What a store refuses is an error of this package that names the path, whichever request it was."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import RayCommitterError, StoreFailedError, TaskCommitError
from ray_committer.jobs.destination_status import destination_status
from ray_committer.jobs.past_commits import past_commits
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore, StoreCall
from tests.cli.commands import run
from tests.commits.tables import AT_ONCE, THIRD
from tests.opening import opening
from tests.stages.support import JOB, KINDS, bring_to, with_job
from tests.table_jobs.tables_in_use import NEW, committed, stopped, write
from tests.tables.support import table_on

pytestmark = pytest.mark.usefixtures("no_pauses")

URL = "s3://bucket/table"
ONE = ray_committer.CommitOptions(job_attempt=0, threads=1, retry_seconds=0.0)
NUMBERS = (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EIO, errno.ENAMETOOLONG, errno.EDQUOT)


def a_job(store: MemoryStore) -> None:
    with_job({0: {"a": b"x"}}, store=store)


def a_recorded_job(store: MemoryStore) -> None:
    a_job(store)
    with opening(store):
        ray_committer.record_job(URL, JOB.job_id, executor="inline", options=ONE)


def a_table(store: MemoryStore) -> None:
    table_on(store)
    committed(store, NEW, THIRD)
    write(store, {"day=1/b": b"b"}, JOB, AT_ONCE)


def an_aborted_job(store: MemoryStore) -> None:
    a_job(store)
    bring_to(store, Phase.ABORTED)


Before = Callable[[MemoryStore], object]
OPERATIONS: dict[str, tuple[Before, Callable[[], object]]] = {
    "setup": (lambda _: None, lambda: ray_committer.setup_job(URL, "job_1", options=ONE)),
    "setup beside": (a_job, lambda: ray_committer.setup_job(URL, "job_2", options=ONE)),
    "setup in a table": (a_table, lambda: ray_committer.setup_job(URL, "job_2", options=ONE)),
    "abort": (a_job, lambda: ray_committer.abort_job(URL, JOB.job_id, options=ONE)),
    "abort in a table": (a_table, lambda: ray_committer.abort_job(URL, JOB.job_id, options=ONE)),
    "undo": (a_recorded_job, lambda: ray_committer.abort_job(URL, JOB.job_id, undo=True, options=ONE)),
    "commit": (
        a_job,
        lambda: ray_committer.commit_job(URL, JOB.job_id, executor="inline", options=ONE),
    ),
    "vacuum": (an_aborted_job, lambda: ray_committer.vacuum_jobs(URL, options=ONE)),
    "list": (a_recorded_job, lambda: ray_committer.list_jobs(URL, exact=True, options=ONE)),
    "status": (a_table, lambda: destination_status(URL, options=ONE)),
    "plan": (a_job, lambda: ray_committer.plan_job(URL, options=ONE)),
    "plan abort": (a_job, lambda: ray_committer.plan_abort(URL, options=ONE)),
    "validate": (a_recorded_job, lambda: ray_committer.validate_job(URL, JOB.job_id, options=ONE)),
    "history": (a_table, lambda: past_commits(URL, options=ONE)),
    "init": (a_job, lambda: ray_committer.init_table(URL, options=ONE)),
    "log": (a_table, lambda: ray_committer.table_log(URL, options=ONE)),
    "drop": (
        a_table,
        lambda: ray_committer.drop_partition(URL, ["day=3"], executor="inline", options=ONE),
    ),
    "undo version": (
        a_table,
        lambda: ray_committer.undo_version(URL, 2, executor="inline", options=ONE),
    ),
    "scan": (stopped, lambda: ray_committer.scan_table(URL, options=ONE)),
    "resolve": (stopped, lambda: ray_committer.resolve_claim(URL, JOB.job_id, options=ONE)),
    "snapshot": (a_table, lambda: ray_committer.snapshot(URL, options=ONE).files()),
}


def prepared(kind: str, before: Before) -> MemoryStore:
    store = KINDS[kind]()
    before(store)
    return store


@pytest.mark.parametrize("kind", ["directories", "generations"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_whichever_request_is_refused_the_error_is_of_this_package_and_names_a_path(
    name: str, kind: str
):
    before, run = OPERATIONS[name]
    calls: list[StoreCall] = []
    with opening(prepared(kind, before), before=calls.append), suppress(RayCommitterError):
        run()
    wrong = []
    for number in range(len(calls)):
        code, met = NUMBERS[number % len(NUMBERS)], list[StoreCall]()

        def fail(call: StoreCall, *, number: int = number, code: int = code, met=met) -> None:
            met.append(call)
            if len(met) == number + 1:
                raise OSError(code, os.strerror(code))  # as a full disk: without a path

        try:
            with opening(prepared(kind, before), before=fail):
                run()
        except RayCommitterError as e:
            text = str(e)
            if "/table" not in text and "/_temporary" not in text:
                wrong.append((met[-1], text))
        except OSError as e:
            wrong.append((calls[number], repr(e)))
    assert calls
    assert wrong == []


# Task attempts, which write local files themselves


def run_task(dest: Path, job: str) -> None:
    with ray_committer.task_attempt(str(dest), job, 0) as attempt:
        attempt.open("day=1/a").close()


def refused_at(operation: str, code: int, end: str = "") -> Callable[[StoreCall], None]:
    def fail(call: StoreCall) -> None:
        if call.operation == operation and call.paths[0].endswith(end):
            raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", NUMBERS)
@pytest.mark.parametrize(
    ("operation", "end"), [("mkdirs", "_0"), ("mkdirs", "day=1"), ("list_status", "_0")]
)
def test_what_is_refused_to_a_task_attempt_is_an_error_that_names_the_path(
    dest: Path, operation: str, end: str, code: int
):
    job = ray_committer.setup_job(str(dest))
    named = pytest.raises(RayCommitterError, match=f"{dest}/_temporary/.*{end}")
    with opening(before=refused_at(operation, code, end)), named as caught:
        run_task(dest, job)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_whose_job_is_aborted_while_it_opens_a_file_is_told_that(dest: Path, when: str):
    job = ray_committer.setup_job(str(dest))

    def abort(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].endswith("day=1"):
            shutil.rmtree(dest / "_temporary")

    gone = pytest.raises(TaskCommitError, match="is gone, because the job or this attempt was aborted")
    with opening(**{when: abort}), gone if when == "after" else suppress(RayCommitterError):
        run_task(dest, job)


def test_a_disk_that_is_full_is_named_by_the_file_that_was_written(dest: Path):
    """A limit of the size of files stands for the disk."""
    job, limits = ray_committer.setup_job(str(dest)), resource.getrlimit(resource.RLIMIT_FSIZE)
    with ray_committer.task_attempt(str(dest), job, 0) as attempt:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        try:
            file = attempt.open("a")
            with pytest.raises(OSError, match=f"File too large: '{attempt.directory}/a'"):
                file.write(bytes(10_000_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            with suppress(OSError):
                file.close()


def test_an_attempt_that_cannot_be_aborted_shows_its_own_error(dest: Path):
    job = ray_committer.setup_job(str(dest))
    refused = opening(before=refused_at("delete_directory", errno.EIO))
    with refused, pytest.raises(KeyError) as caught, ray_committer.task_attempt(str(dest), job, 0):
        raise KeyError("own")
    (note,) = caught.value.__notes__
    assert "were not deleted" in note
    assert str(dest) in note


# Real file systems, as the command line shows them


@pytest.mark.parametrize("command", ["status", "vacuum", "abort", "commit", "table init"])
def test_a_directory_without_permission_is_named_by_each_command(
    open_dest: Path, command: str, request: pytest.FixtureRequest
):
    ray_committer.setup_job(str(open_dest))
    (open_dest / "_temporary").chmod(0o700)
    request.getfixturevalue("unprivileged")
    done = run(*command.split(), str(open_dest))
    assert "Traceback" not in done.stderr
    assert "RC-bug" not in done.stderr
    assert f"{open_dest}/_" in (done.stderr or done.stdout)


def test_a_set_up_without_permission_names_the_directory(
    open_dest: Path, request: pytest.FixtureRequest
):
    request.getfixturevalue("unprivileged")
    with pytest.raises(StoreFailedError, match=f"{open_dest}.*: no permission .*; grant it") as caught:
        ray_committer.setup_job(str(open_dest))
    assert caught.value.exit_code == 1


def test_a_name_that_is_too_long_is_named(dest: Path):
    with pytest.raises(RayCommitterError, match=r"x{300}"):
        ray_committer.setup_job(str(dest), "x" * 300)
    with pytest.raises(RayCommitterError, match=r"x{300}"):
        ray_committer.setup_job(str(dest / ("x" * 300)))
