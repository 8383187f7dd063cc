"""An abort decides by the record, then deletes the job attempt and nothing else."""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    JobNotFoundError,
    RayCommitterError,
)
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_abort, run_commit
from tests.stages.support import before_the_write


def test_abort_deletes_the_job_and_only_that(store, write_job, dest: Path, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "x"}}, job_id="job_2")
    assert ray_committer.abort_job(str(dest), "job_1") is True
    assert Path(other.manifests).is_dir()
    assert ray_committer.abort_job(str(dest), "job_2") is True
    assert not (dest / "_temporary").exists()
    assert tree() == {}


def test_abort_after_the_record_deletes_nothing_and_names_the_command(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    with pytest.raises(CommitRecordExistsError, match="ray-committer commit"):
        ray_committer.abort_job(str(dest))
    assert next(Path(job.tasks).rglob("a")).read_text() == "x"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("first", ["commit", "abort"])
def test_a_commit_and_an_abort_at_once_cannot_both_happen(store, write_job, dest, tree, first: str):
    """The second one runs whole at every store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y"}
    for number in range(1, 40):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: files, 1: {}})
        commit, abort = partial(run_commit, job=job), partial(run_abort, job=job)
        runs = {"commit": (commit, abort), "abort": (abort, commit)}[first]
        done: list[object] = []
        countdown = iter(range(number))

        def other(call: StoreCall, countdown=countdown, runs=runs, done=done) -> None:
            if next(countdown, None) is None and not done:
                done.append("the other ran")
                with contextlib.suppress(RayCommitterError):
                    done.append(runs[1](store))

        with contextlib.suppress(RayCommitterError):
            runs[0](WrappedStore(store, before=other))
        if not done:
            break
        with contextlib.suppress(JobNotFoundError, CommitAbortedError):
            ray_committer.commit_job(str(dest), "job_1")
        with contextlib.suppress(CommitRecordExistsError):
            ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() in (files, {}), number
        assert (dest / "_SUCCESS").exists() == bool(tree())
        assert not (dest / "_temporary").exists()
    assert number > 4


def test_an_abort_that_crashed_is_finished_by_an_abort_and_by_nothing_else(store, write_job, dest, tree):
    for number in range(1, 9):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
        countdown = iter(range(number))

        def crash(call: StoreCall, countdown=countdown) -> None:
            if next(countdown, None) is None:
                raise SimulatedCrash(call)

        with contextlib.suppress(SimulatedCrash):
            run_abort(WrappedStore(store, before=crash), job)
        if Path(job.commit_record).exists():
            with pytest.raises(CommitAbortedError, match="ray-committer abort"):
                ray_committer.commit_job(str(dest), "job_1")
        ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() == {}
        assert not (dest / "_temporary").exists()


def test_an_abort_that_a_record_overtakes_deletes_nothing(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    store = before_the_write(lambda: ray_committer.record_job(str(dest), "job_1"))
    with pytest.raises(CommitRecordExistsError):
        run_abort(store, job)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}
