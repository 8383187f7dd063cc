"""Whole task attempts, and commits of a driver that has the results of its tasks."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ray_committer.job_files.job_state import is_job_of, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.read_job import as_set_up
from ray_committer.job_files.set_up_here import SetUpHere, new_declaration
from ray_committer.options import CommittedTask
from ray_committer.places.choose import output_of, places_of
from ray_committer.places.staged_files import StagedFiles
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import Claim, encode
from ray_committer.protocol.state import new_nonce
from ray_committer.stages import abort_task, commit_task  # where a mutant replaces the functions
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import commit_attempt, load_ahead, run_commit, write_attempt
from tests.machines.operations import (
    OF_ATTEMPT,
    OF_LATE,
    OVERWRITE,
    STAGED,
    VACUUM,
    Job,
    Operation,
    abort,
    commit,
    each_with,
    late_task,
    results_path,
    undo,
)

OF_SECOND = f"{1:08x}{0:08x}"
TOLD = Job("told", {f"p=1/d-{OF_ATTEMPT}": b"d1", f"p=7/d-{OF_SECOND}": b"d7"})
"""A job of two tasks, whose driver has their results."""


def drive(job: Job, *, has_text: bool) -> Operation:
    """Commit a job as its driver does, which has loaded the results of its tasks before: manifests,
    if it `has_text`, else their names, as of large ones. Without, other attempts may be there. With
    texts, it goes on from the state in which it has set the job up, and what it declared beforehand."""

    def run(store: StoreOperations, table: str) -> str:
        attempt = job.attempt(table)
        results: Sequence[CommittedTask] = pickle.loads(store.read(results_path(table, job)))
        results = [one if has_text else replace(one, text=None) for one in results]
        state = _remembered(store, attempt) if has_text else None
        ahead = load_ahead(store, attempt, results)
        options = job.options(table).changed(
            expected_tasks=len(results),
            committed_tasks=tuple(results),
            ignore_other_attempts=not has_text,
        )
        result = run_commit(store, attempt, options, ahead=ahead, state=state)
        # A record of another run counts, whichever attempts that has found.
        return (Outcome.ALREADY_COMMITTED if result.resumed else result.outcome).value

    name = f"driver of {job.name} with {'texts' if has_text else 'names'}"
    return Operation(name, job, run, is_commit=True, knows_tasks=True)


def _remembered(store: StoreOperations, attempt: JobAttempt) -> JobStatus | None:
    """What the process knows that has set up the job; None if that is over already."""
    current = read_state(store, attempt)
    if current is None:
        return None
    claim = Claim([store.real_path(attempt.destination)])
    prepared = new_declaration(attempt, claim, new_nonce(), None, time.time_ns() // 1_000_000)
    is_file = not places_of(store).add_content(attempt, prepared.nonce, encode(prepared))
    return as_set_up(store, attempt, SetUpHere(current, prepared if is_file else None))


def retry(job: Job) -> Operation:
    """Run another attempt of the job's first task, from its set-up to its manifest."""
    name, data = next(iter(job.files.items()))
    job = job.with_late({name.replace(OF_ATTEMPT, OF_LATE): data.upper()}, is_written=False)

    def run(store: StoreOperations, table: str) -> str:
        staged, stamp = _write(store, job.attempt(table), job)
        _save(store, staged, stamp, job)
        return "task committed"

    return Operation(f"retry of {job.name}", job, run, is_late_task=True)


def failed_attempt(job: Job) -> Operation:
    """Run another attempt of the job's first task, which fails before it has a manifest."""
    wanted = retry(job).job
    assert wanted is not None
    job = job.with_late(job.files, is_written=False)

    def run(store: StoreOperations, table: str) -> str:
        staged, _ = _write(store, job.attempt(table), wanted)
        abort_task.abort_task(store, staged.job, staged.task_attempt_id, staged.places)
        return "given up"

    return Operation(f"failed attempt of {job.name}", job, run, is_late_task=True)


def _write(store: StoreOperations, attempt: JobAttempt, job: Job) -> tuple[StagedFiles, str]:
    """Write the files of the late attempt as a task does; return them and the stamp of its job."""
    attempt_id = f"attempt_{attempt.job_id}_m_000000_1"
    directory, stamp = setup_task(store, attempt, attempt_id, chooses_names=True)
    staged = StagedFiles(store, attempt, attempt_id, partial(is_job_of, store, attempt, stamp))
    if not output_of(store).stages(stamp):
        write_attempt(store, attempt, attempt_id, job.of_late)
        return staged, stamp
    for name, data in job.of_late.items():
        place = join(attempt.destination, name)
        path = staged.path(place)
        assert path is not None, f"{directory}: has no staged files"
        store.write(path, data)
        staged.places[path] = place
    return staged, stamp


def _save(store: StoreOperations, staged: StagedFiles, stamp: str, job: Job) -> None:
    attempt_id = staged.task_attempt_id
    if not output_of(store).stages(stamp):
        commit_attempt(store, staged.job, 0, attempt_id, stamp=stamp, files=job.of_late)
        return
    task_id = attempt_id.replace("attempt_", "task_").rpartition("_")[0]
    commit_task.commit_task(
        store, staged.job, task_id=task_id, task_attempt_id=attempt_id, stamp=stamp, staged=staged
    )


def task_pairs() -> list[tuple[Operation, Operation]]:
    """Pairs of a driver, task attempts and others."""
    drivers = [drive(TOLD, has_text=True), drive(TOLD, has_text=False)]
    attempts = [retry(TOLD), failed_attempt(TOLD)]
    others = [commit(TOLD), abort(TOLD), undo(TOLD), late_task(TOLD), VACUUM, commit(OVERWRITE)]
    found = each_with(drivers, [*attempts, *others])
    found += each_with(attempts, [commit(TOLD), abort(TOLD), undo(TOLD)])
    found += each_with([retry(STAGED), failed_attempt(STAGED)], [commit(STAGED), abort(STAGED), VACUUM])
    return list({(one.name, other.name): (one, other) for one, other in found}.values())
