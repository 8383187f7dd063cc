"""Directories and files that are moved whole and one by one add up, however a job is committed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.jobs.plan import plan_job
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import join
from ray_committer.protocol.whole import ByFile
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.opening import moves_a_file, opening
from tests.stages.support import JOB, staged_name
from tests.tables.support import table_on

pytestmark = pytest.mark.usefixtures("no_pauses")
TASKS = {
    task: {
        join(directory, staged_name("f", task)): b"x" * task
        for directory in ("new=1", "new=2/deep=1", "there=1", "mixed=1", "mixed=1/below=1")
    }
    | {f"named=1/{task}": b"y"}
    for task in (1, 2)
}
"""Of which the files in ``mixed=1`` are in a directory above another one."""
FILES, LEAVES = 12, 5
WHOLE, WHOLE_FILES = 3, 6
BY_FILE = {ByFile.THERE.value: 1, ByFile.OWN_NAMES.value: 1}
"""What a run finds that nobody has run before."""
UNCHECKED, VALIDATED = CommitOptions(validate=False), CommitOptions(validate=True)


def with_job(store: MemoryStore, mode: ConflictMode = ConflictMode.APPEND) -> MemoryStore:
    put_file(store, "/table/there=1/old", b"old")
    write_job(store, JOB, TASKS, mode=mode)
    return store


def add_up(result: CommitResult) -> bool:
    """Whether all directories and files are counted, each once."""
    in_place = result.moved + sum(result.proved.values())
    leaves = result.whole + sum(result.by_file.values())
    return (in_place, leaves) == (FILES, result.directories) and result.whole_files <= FILES


@pytest.mark.parametrize("options", [UNCHECKED, VALIDATED], ids=["", "validated"])
@pytest.mark.parametrize("has_log", [False, True], ids=["", "log"])
@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE_PARTITIONS])
def test_all_directories_and_all_files_are_counted(
    mode: ConflictMode, has_log: bool, options: CommitOptions
):
    store = MemoryStore()
    if has_log:
        table_on(store)
    result = run_commit(with_job(store, mode), JOB, replace(options, mode=mode))
    assert (result.directories, result.whole, result.whole_files) == (LEAVES, WHOLE, WHOLE_FILES)
    assert result.by_file == BY_FILE
    assert result.validated == (FILES - WHOLE_FILES if options.validate else 0)
    assert add_up(result)


def test_where_none_goes_whole_there_is_one_reason_for_all():
    result = run_commit(with_job(MemoryStore(identity=Identity.SIZE_ONLY)), JOB)
    assert result.by_file[ByFile.NO_PROOF] == WHOLE
    assert add_up(result)


@pytest.mark.parametrize("moved_before", range(1, WHOLE + 1))
def test_a_run_that_goes_on_counts_what_another_has_moved(moved_before: int):
    store = with_job(MemoryStore())
    moves = count(1)

    def die(call: StoreCall) -> None:
        if moves_a_file(call) and next(moves) == moved_before:
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=die), JOB)
    result = run_commit(store, JOB)
    assert result.resumed
    assert sum(result.proved.values()) == 2 * moved_before
    assert (result.whole, result.whole_files) == (WHOLE, WHOLE_FILES)
    assert add_up(result)


def test_a_dry_run_predicts_what_the_commit_counts():
    store = with_job(MemoryStore())
    with opening(store):
        plan = plan_job("/table", JOB.job_id)
    result = run_commit(store, JOB)
    assert (plan.directories, plan.whole, plan.whole_files) == (LEAVES, WHOLE, WHOLE_FILES)
    assert (plan.whole, plan.whole_files, plan.by_file) == (
        result.whole,
        result.whole_files,
        result.by_file,
    )
