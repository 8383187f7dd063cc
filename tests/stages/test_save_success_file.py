"""``_SUCCESS``: what it says, and that it is put in place whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ray_committer import CommitOptions
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stages.save_success_file import save_success_file, write_success_file
from ray_committer.testing import MemoryStore, WrappedStore, run_commit
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, NOW, at, context, files_of, pack_of, record_of, requests, with_job


def test_no_marker_is_written_when_that_is_switched_off(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}, mark_success=False), CommitOptions(mark_success=False))
    assert not (dest / "_SUCCESS").exists()


RECORD = record_of([pack_of(2, 30)])
NAMES = ["memory://test/table/a", "memory://test/table/b"]


def mark(store, filenames: list[str] = NAMES) -> None:
    found = context(store)
    save_success_file(found, write_success_file(found, RECORD, filenames))


def read(store: MemoryStore, path: str = JOB.success) -> SuccessData:
    found = decode_success(store.read(path), path)
    assert found is not None
    return found


@pytest.mark.parametrize(("filenames", "kept"), [(0, 0), (1, 1), (100, 100), (150, 100)])
def test_the_marker_names_up_to_a_hundred_files(filenames: int, kept: int):
    store = with_job()
    names = [f"memory://test/table/{number}" for number in range(filenames)]
    mark(store, names)
    assert read(store).filenames == names[:kept]


def test_the_marker_counts_what_the_record_names_when_another_run_moved_it():
    store = with_job()
    mark(store)
    success = read(store)
    assert (success.job_id, success.timestamp) == ("job_1", NOW)
    assert success.iostatistics is not None
    assert success.iostatistics.counters["committer_files_committed"] == 2
    assert success.iostatistics.counters["committer_bytes_committed"] == 30


def test_a_marker_is_saved_by_one_write_and_one_rename():
    assert requests(with_job(), mark) == Counter(write=1, replace=1)


def test_the_marker_of_an_earlier_job_is_replaced_and_nothing_is_left_beside_it():
    store = with_job()
    put_file(store, JOB.success, b"")
    mark(store)
    mark(store)
    assert read(store).job_id == "job_1"
    assert list(files_of(store)) == [JOB.success]


@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_marker_that_cannot_be_saved_is_an_error_and_the_earlier_one_stays(operation: str, error):
    store = with_job()
    put_file(store, JOB.success, b"of an earlier job")
    with pytest.raises(error):
        mark(WrappedStore(store, before=at(operation, error("simulated"))))
    assert store.read(JOB.success) == b"of an earlier job"
    mark(store)
    assert read(store).job_id == "job_1"


def test_a_marker_whose_first_answer_was_lost_on_the_way_is_known_by_its_content():
    store = with_job()
    mark(WrappedStore(store, after=at("replace", FileNotFoundError("simulated"))))
    assert read(store).job_id == "job_1"


def test_a_directory_in_the_place_of_the_marker_is_an_error():
    store = with_job()
    store.mkdirs(JOB.success)
    with pytest.raises(IsADirectoryError):
        mark(store)


def test_two_committers_of_a_job_write_to_names_of_their_own():
    """One that dies while it writes must not empty what the other puts in place."""
    store = with_job()
    first, second = (write_success_file(context(store), record_of(), []) for _ in range(2))
    assert first.path != second.path
    store.write(second.path, b"")
    save_success_file(context(store), first)
    assert store.read(JOB.success) == first.data


def test_who_finds_that_another_committer_has_cleaned_up_leaves_its_marker():
    store = with_job()
    first, second = (write_success_file(context(store), record_of(), []) for _ in range(2))
    save_success_file(context(store), first)
    store.delete_directory(JOB.directory)
    save_success_file(context(store), second)
    assert store.read(JOB.success) == first.data
    with pytest.raises(FileNotFoundError):  # the marker is of another job
        save_success_file(context(store), replace(second, data=b"{}", nonce="of another record"))
