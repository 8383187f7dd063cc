"""The log of a table is never data of a job, and no job elsewhere goes around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.errors import CommitStateUnknownError, PreflightError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.record import ConflictMode, ReplacedFile
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces
from ray_committer.stages.other_jobs.other_attempts import refuse_other_attempts
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.other_tables import above_partitions, refuse_partitions_of_tables
from ray_committer.testing import run_commit, write_job
from ray_committer.testing.harness import put_file, run_abort, run_undo, visible_files
from tests.stages.support import KINDS, record, requests, state_of
from tests.tables.support import table_on

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
LEFT = f"{DIRECTORY}/log/kept.entry"
"""A file in the place of a log; nothing makes the destination a table."""


@pytest.fixture(params=[*KINDS, "local"])
def store(request: pytest.FixtureRequest) -> StoreOperations:
    return LocalStore(StoreSpec("file")) if request.param == "local" else KINDS[request.param]()


@pytest.fixture
def job(tmp_path: Path) -> JobAttempt:
    return new_job_attempt(str(tmp_path / "table"), "job_1", 0)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], JobAttempt]:
    return lambda name: new_job_attempt(str(tmp_path / name), "job_1", 0)


def left(store: StoreOperations, destination: str) -> bytes:
    return store.read(join(destination, LEFT))


@pytest.mark.parametrize("mode", list(ConflictMode))
def test_a_log_is_not_data_at_its_own_destination(store, job, mode: ConflictMode):
    put_file(store, join(job.destination, LEFT), b"log")
    write_job(store, job, {0: {"day=1/a": b"a"}}, mode=mode)
    run_commit(store, job, CommitOptions(mode=mode))
    assert left(store, job.destination) == b"log"
    assert visible_files(store, job.destination) == {"day=1/a": b"a", LEFT: b"log"}


def test_a_log_survives_undo_and_abort(store, job):
    put_file(store, join(job.destination, LEFT), b"log")
    write_job(store, job, {0: {"day=1/a": b"a"}})
    run_abort(store, job)
    assert left(store, job.destination) == b"log"
    write_job(store, job, {0: {"day=1/a": b"a"}})
    record(store, job)
    run_undo(store, job)
    assert left(store, job.destination) == b"log"


@pytest.mark.parametrize("name", [LEFT, DIRECTORY, f"day=1/{DIRECTORY}/log/x"])
def test_a_job_that_writes_to_a_log_is_refused_before_its_record(store, job, name: str):
    write_job(store, job, {0: {"day=2/a": b"a"}, 1: {name: b"b"}})
    with pytest.raises(PreflightError, match=r"is a name that the commit itself needs|can make"):
        run_commit(store, job)
    assert state_of(store, job).phase is Phase.OPEN


def test_a_record_that_names_a_file_of_a_log_changes_nothing(store, job):
    path = join(job.destination, LEFT)
    put_file(store, path, b"log")
    write_job(store, job, {0: {"day=1/a": b"a"}})
    record(store, job, replaced=[ReplacedFile(path, 3)])
    with pytest.raises(CommitStateUnknownError, match="which no job can change"):
        run_commit(store, job)
    assert left(store, job.destination) == b"log"


def test_an_overwrite_above_a_table_is_refused_by_its_name(store, job, elsewhere):
    above = elsewhere("")
    table = TablePlaces(job.destination)
    table_on(store, table)
    write_job(store, above, {0: {"other/a": b"a"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(PreflightError, match=f"{table.destination} is a table with a log"):
        run_commit(store, above, OVERWRITE)
    assert store.get_status(table.definition) is not None


def test_a_log_is_no_directory_to_be_replaced(store, job):
    root = join(job.destination, DIRECTORY)
    put_file(store, join(job.destination, LEFT), b"log")
    write_job(store, job, {0: {"day=1/a": b"a"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(PreflightError, match="is a table with a log"):
        run_commit(store, job, CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=(root,)))
    assert left(store, job.destination) == b"log"


def test_an_append_into_a_table_from_above_is_refused_where_it_is_seen(store, job, elsewhere):
    above = elsewhere("")
    table_on(store, TablePlaces(job.destination))
    write_job(store, above, {0: {"table/a": b"a"}})
    with pytest.raises(PreflightError, match="is a table with a log"):
        run_commit(store, above)


@pytest.mark.parametrize("name", ["table/day=1", "table/day=1/hour=2"])
def test_a_job_at_a_partition_of_a_table_is_refused_at_set_up(store, job, elsewhere, name: str):
    table_on(store, TablePlaces(job.destination))
    with pytest.raises(PreflightError, match=f"{job.destination} is a table with a log"):
        setup_job(store, elsewhere(name))
    assert store.get_status(join(job.destination, "day=1")) is None


def test_a_job_at_a_partition_is_refused_before_its_record_if_the_table_is_younger(
    store, job, elsewhere
):
    partition = elsewhere("table/day=1")
    write_job(store, partition, {0: {"a": b"a"}})
    table_on(store, TablePlaces(job.destination))
    with pytest.raises(PreflightError, match="is a table with a log"):
        run_commit(store, partition)
    refuse_other_attempts(store, partition)


def test_only_directories_named_like_partitions_cost_a_request():
    assert above_partitions("/b/table") == []
    assert above_partitions("/b/x=1/table") == []
    assert above_partitions("/b/table/day=1/hour=2") == ["/b/table/day=1", "/b/table"]
    found = requests(
        KINDS["directories"](),
        lambda one: refuse_partitions_of_tables(one, ("/b/table", "/b/t/day=1", "/b/t/day=2")),
    )
    assert found == {"read": 1}
