"""A rename that fails is judged from both ends, on a real file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ray_committer.errors import CommitConflictError, CommitStateUnknownError
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Proof
from ray_committer.stages.rename_files import publish_entry
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore, Rename
from ray_committer.testing import LinkingStore, SimulatedCrash, StoreCall, WrappedStore
from ray_committer.work.entries import OldFileStaysError, entries
from tests.stages.support import at


@pytest.fixture
def entry(store, write_job) -> Entry:
    """The one file of a job, not yet moved; its directory exists."""
    job = write_job({0: {"a": "text"}})
    path = job.manifest("task_1_m_000000")
    (found,) = entries(decode_manifest(Path(path).read_bytes(), path), store.spec)
    return found


def old_file(store, entry: Entry) -> ReplacedFile:
    Path(entry.dest).write_text("what was there")
    os.utime(entry.dest, (1, 1))
    status = store.get_status(entry.dest)
    return ReplacedFile(entry.dest, status.size, status.modified_milliseconds, status.etag)


def test_an_earlier_rename_is_proved_by_modification_time(store, entry: Entry):
    os.rename(entry.source, entry.dest)
    assert publish_entry(store, entry, 1) is Proof.MODIFICATION_TIME


def test_another_file_of_equal_size_is_a_conflict_even_without_the_source(store, entry: Entry):
    os.unlink(entry.source)
    Path(entry.dest).write_text("TEXT")
    os.utime(entry.dest, (1, 1))
    with pytest.raises(CommitConflictError, match="not what its manifest says"):
        publish_entry(store, entry, 1)
    assert Path(entry.dest).read_text() == "TEXT"


def test_both_ends_of_equal_size_and_time_are_a_conflict(store, entry: Entry):
    Path(entry.dest).write_text("TEXT")
    status = os.stat(entry.source)
    os.utime(entry.dest, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CommitConflictError):
        publish_entry(store, entry, 1)
    assert Path(entry.source).read_text() == "text"
    assert Path(entry.dest).read_text() == "TEXT"


def test_one_file_under_both_names_is_finished(store, entry: Entry):
    os.link(entry.source, entry.dest)
    assert publish_entry(store, entry, 1) is None
    assert not Path(entry.source).exists()
    assert Path(entry.dest).read_text() == "text"


@pytest.mark.parametrize("rename", [os.rename, os.link])
def test_after_a_crash_a_file_that_is_proved_has_no_stale_checksum_beside_it(
    store, entry: Entry, rename: Rename
):
    """The process dies right after the system call that moves the file, or gives it its second name."""

    def die(source: str, dest: str) -> None:
        rename(source, dest)
        raise SimulatedCrash

    checksum = Path(entry.dest).with_name(".a.crc")
    checksum.write_text("of a file that was deleted without it")
    with pytest.raises(SimulatedCrash):
        publish_entry(LocalStore(StoreSpec("file"), rename=die), entry, 1)
    assert publish_entry(store, entry, 1) in (Proof.MODIFICATION_TIME, None)
    assert Path(entry.dest).read_text() == "text"
    assert not checksum.exists()


def test_neither_end_is_a_loss_that_stops_the_commit(store, entry: Entry):
    os.unlink(entry.source)
    with pytest.raises(CommitStateUnknownError, match="put the file back"):
        publish_entry(store, entry, 1)


def test_a_rename_that_proved_not_to_have_happened_is_tried_again(store, entry: Entry):
    tries: list[StoreCall] = []

    def fail_twice(call: StoreCall) -> None:
        if call.operation == "rename":
            tries.append(call)
            if len(tries) < 3:
                raise TimeoutError("no answer")

    assert publish_entry(WrappedStore(store, before=fail_twice), entry, 3) is None
    assert len(tries) == 3


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_rename_that_fails_each_time_is_tried_as_often_as_told(store, entry: Entry, attempts: int):
    tries: list[StoreCall] = []

    def fail(call: StoreCall) -> None:
        if call.operation == "rename":
            tries.append(call)
            raise TimeoutError(110, "no answer")

    with pytest.raises(CommitStateUnknownError, match=r"could not be renamed.*no answer"):
        publish_entry(WrappedStore(store, before=fail), entry, attempts)
    assert len(tries) == attempts


def test_a_replacement_that_is_refused_says_why(store, entry: Entry):
    old = old_file(store, entry)

    with pytest.raises(OldFileStaysError, match=r"may not be replaced"):
        publish_entry(
            WrappedStore(store, before=at("replace", PermissionError(13, "may not be replaced"))),
            entry,
            2,
            old,
        )
    assert Path(entry.dest).read_text() == "what was there"


def test_one_file_under_two_names_counts_as_moved_if_the_old_name_cannot_be_deleted(entry: Entry):
    """It goes with the job's directory. Nothing is deleted after a look."""
    refused = at("unlink", PermissionError(13, "denied"))
    store = WrappedStore(LinkingStore(StoreSpec("file")), before=refused)
    assert publish_entry(store, entry, 8) is Proof.SAME_FILE
    assert Path(entry.dest).samefile(entry.source)
