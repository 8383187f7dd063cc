"""A destination becomes a table with all files that are there, and no job that does not know it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from ray_committer.errors import CommitConflictError, PreflightError, TableClaimError
from ray_committer.options import CommitOptions
from ray_committer.protocol import file_list
from ray_committer.protocol.paths import SUCCESS, join, new_job_attempt
from ray_committer.protocol.state import TableBase
from ray_committer.protocol.table_entry import TableClaim, TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.make_table import make_table
from ray_committer.tables.append import append, decide
from ray_committer.tables.checkpoint import read_files
from ray_committer.tables.log import is_complete, read_definition
from ray_committer.tables.put import init_table
from ray_committer.testing import MemoryStore, WrappedStore, run_abort, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, KINDS, NOW, OTHER_JOB, do_at, each_crash, state_of
from tests.tables.support import DEFINITION, TABLE, abort_of, claim_of

pytestmark = pytest.mark.usefixtures("no_pauses")

AT_ONCE = CommitOptions(conflict_wait_seconds=0.0)
FILES = {"day=1/a": b"1", "day=2/b": b"22", "c": b"333"}
HIDDEN = {SUCCESS: b"", "_spark_metadata/0": b"", ".crc": b"", "day=1/.a.crc": b""}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS[request.param]


def with_files(store: MemoryStore) -> MemoryStore:
    for name, data in {**FILES, **HIDDEN}.items():
        put_file(store, join("/table", name), data)
    return store


def made(store: StoreOperations, table: TablePlaces = TABLE) -> tuple[int, TableClaim]:
    return make_table(store, table, DEFINITION, NOW)


def named(store: StoreOperations, table: TablePlaces = TABLE) -> dict[str, int]:
    definition = read_definition(store, table)
    assert definition is not None
    state, files = read_files(store, table, definition.table_id)
    assert state.in_flight == []
    return {file.path: file.size for partition in files.values() for file in partition.values()}


SIZES = {name: len(data) for name, data in FILES.items()}


def test_the_log_names_the_files_that_readers_see(kind):
    store = with_files(kind())
    version, claim = made(store)
    assert (version, claim.files.files, claim.files.bytes) == (1, 3, 6)
    assert named(store) == SIZES


def test_an_empty_destination_becomes_an_empty_table(kind):
    store = kind()
    made(store)
    assert named(store) == {}
    write_job(store, JOB, {0: FILES})
    assert run_commit(store, JOB, AT_ONCE).table_version == 4
    assert named(store) == SIZES


def test_many_files_are_in_lists(kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_list, "MOST_INLINE", 1)
    store = with_files(kind())
    assert made(store)[1].files.lists
    assert named(store) == SIZES


def test_a_table_is_made_once(kind):
    store = with_files(kind())
    made(store)
    before = store.files()
    with pytest.raises(CommitConflictError, match="is a table with a log already"):
        made(store)
    assert store.files() == before


def test_a_job_at_work_refuses_it_and_nothing_is_changed(kind):
    store = with_files(kind())
    write_job(store, JOB, {0: {"day=3/x": b"x"}})
    before = store.files()
    with pytest.raises(CommitConflictError, match=r"job job_1 was set up before the table was made"):
        made(store)
    assert store.files() == before
    run_commit(store, JOB, AT_ONCE)
    made(store)
    assert named(store) == {**SIZES, "day=3/x": 1}


def test_a_job_that_hadoop_set_up_refuses_it(kind):
    store = with_files(kind())
    store.mkdirs(JOB.manifests)
    with pytest.raises(CommitConflictError, match="job_1 was set up before"):
        made(store)


def test_a_job_that_is_set_up_just_before_is_in_the_table_before_its_files_are_listed(kind):
    store = with_files(kind())
    meanwhile = do_at("write", lambda: write_job(store, JOB, {0: {"day=3/x": b"x"}}), end="")
    with pytest.raises(CommitConflictError, match="job_1 was set up before"):
        made(WrappedStore(store, before=meanwhile))
    assert state_of(store).table is None
    run_commit(store, JOB, AT_ONCE)
    made(store)
    assert named(store) == {**SIZES, "day=3/x": 1}


def test_a_job_of_the_table_that_commits_before_the_import_is_not_imported_twice(kind):
    store = with_files(kind())

    def commit() -> None:
        write_job(store, JOB, {0: {"day=3/x": b"x"}})
        assert state_of(store).table == TableBase("id", 0)
        run_commit(store, JOB, AT_ONCE)

    meanwhile = do_at("rename", commit, end="001.entry")
    version, claim = made(WrappedStore(store, before=meanwhile))
    assert (version, claim.files.files) == (3, 3)
    assert named(store) == {**SIZES, "day=3/x": 1}


def test_a_job_of_the_table_at_work_refuses_the_import(kind):
    store = with_files(kind())
    meanwhile = do_at("rename", lambda: append(store, TABLE, claim_of("other"), 0), end="001.entry")
    with pytest.raises(CommitConflictError, match=r"001.entry: job other is at work in the table"):
        made(WrappedStore(store, before=meanwhile))


def test_after_a_crash_the_same_command_makes_it(kind):
    for store in each_crash(lambda: with_files(kind()), made):
        if is_complete(store, TABLE, DEFINITION.table_id):
            assert named(store) == SIZES
        with suppress(CommitConflictError):  # it was made before the crash
            made(store)
        assert named(store) == SIZES
        assert is_complete(store, TABLE, DEFINITION.table_id)


def test_a_table_is_complete_only_if_no_job_is_left_that_does_not_know_it(kind):
    store = with_files(kind())
    write_job(store, JOB, {0: {"day=3/x": b"x"}})
    init_table(store, TABLE, DEFINITION)  # as a run that found this job just after that
    with pytest.raises(CommitConflictError, match=r"job job_1 was set up before the table was made"):
        made(store)
    assert not is_complete(store, TABLE, DEFINITION.table_id)
    run_abort(store, JOB)
    made(store)
    assert is_complete(store, TABLE, DEFINITION.table_id)


def test_a_table_is_not_complete_beside_a_job_of_a_table_that_was_there_before(kind):
    """Its commit fails when it gets to the log, but it moves its files before."""
    store = kind()
    made(store)
    write_job(store, JOB, {0: FILES})
    for path in [one for one in store.files() if one.startswith(TABLE.directory)]:
        store.delete_file(path)
    store.delete_directory(TABLE.directory)
    again = structs.replace(DEFINITION, table_id="again")
    make_table(store, TABLE, again, NOW)
    assert not is_complete(store, TABLE, "again")
    run_abort(store, JOB)
    with pytest.raises(CommitConflictError, match="is a table with a log already"):
        make_table(store, TABLE, again, NOW)
    assert is_complete(store, TABLE, "again")


def test_a_table_in_a_table_is_refused(kind):
    store = with_files(kind())
    made(store)
    with pytest.raises(PreflightError, match="/table is a table with a log"):
        made(store, TablePlaces("/table/day=1"))
    with pytest.raises(PreflightError, match="/table is a table with a log"):
        made(store, TablePlaces("/"))


def test_jobs_that_have_ended_are_not_in_the_way(kind):
    store = with_files(kind())
    write_job(store, JOB, {0: {"day=3/x": b"x"}})
    run_commit(store, JOB, CommitOptions(cleanup=False))
    write_job(store, OTHER_JOB, {0: {"day=4/x": b"x"}})
    run_abort(store, OTHER_JOB)
    made(store)
    assert named(store) == {**SIZES, "day=3/x": 1}


def test_an_attempt_elsewhere_is_not_in_the_way(kind):
    store = with_files(kind())
    write_job(store, new_job_attempt("/other", "job", 0), {0: {"a": b""}})
    other = TableDefinition(table_id="another", created_milliseconds=1)
    assert make_table(store, TABLE, other, NOW)[1].nonce == "another"


def test_a_link_to_a_directory_is_refused_and_no_table_is_made(tmp_path: Path):
    store, table = LocalStore(StoreSpec("file")), TablePlaces(str(tmp_path / "table"))
    put_file(store, str(tmp_path / "elsewhere/a"), b"1")
    put_file(store, join(table.destination, "b"), b"2")
    for link in (tmp_path / "table/day=1", tmp_path / "table/day=2/hour=1"):
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PreflightError, match=f"{link}: is a symbolic link to a directory"):
            made(store, table)
        assert read_definition(store, table) is None
        link.unlink()
    (tmp_path / "table/.old").symlink_to(tmp_path / "elsewhere")
    made(store, table)
    assert named(store, table) == {"b": 1}


def test_an_import_that_was_given_up_is_made_anew(kind):
    store = with_files(kind())
    meanwhile = do_at("rename", lambda: decide(store, TABLE, abort_of(1)), end="002.entry")
    with pytest.raises(TableClaimError, match=r"002.entry: says that the claim .* was given up"):
        made(WrappedStore(store, before=meanwhile))
    version, claim = made(store)
    assert (version, claim.is_import) == (3, True)
    assert named(store) == SIZES
