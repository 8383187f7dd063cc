"""Where random faults once found a commit wrong, one test each."""

from __future__ import annotations

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitStateUnknownError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.testing import (
    Chaos,
    Identity,
    MemoryStore,
    SimulatedCrash,
    WrappedStore,
    chaos_executor,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.stages.support import at

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


@pytest.mark.slow
@pytest.mark.parametrize("identity", [Identity.MODIFICATION_TIME, Identity.ETAG, Identity.GENERATION])
def test_two_runs_of_one_rename_over_an_old_file_raise_no_false_alarm(identity: Identity):
    prepared, job = MemoryStore(identity=identity), new_job_attempt("/table", "job_1", 0)
    put_file(prepared, "/table/a", b"old")
    write_job(prepared, job, {0: {"a": b"newer"}}, mode=ConflictMode.OVERWRITE)
    for seed in range(60):
        store = prepared.copy()
        executor = chaos_executor(store, job, seed, kinds=[Chaos.TWICE_AT_ONCE])
        run_commit(store, job, OVERWRITE, executor=executor)
        assert visible_files(store, job.destination) == {"a": b"newer"}


@pytest.mark.parametrize("identity", [Identity.FILE_ID, Identity.SIZE_ONLY])
def test_an_old_and_a_new_file_of_one_size_that_nothing_tells_apart_stop_the_commit(identity: Identity):
    """On a store that keeps neither etag nor time, doubt is an error, and nothing is deleted."""
    store, job = MemoryStore(identity=identity), new_job_attempt("/table", "job_1", 0)
    put_file(store, "/table/a", b"old")
    write_job(store, job, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=at("replace", SimulatedCrash())), job, OVERWRITE)
    with pytest.raises(CommitStateUnknownError, match="/table/a"):
        run_commit(store, job, OVERWRITE)
    assert visible_files(store, job.destination) == {"a": b"new"}
