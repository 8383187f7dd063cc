"""One rename on every kind of store: what it asks, and what each fault of each request leaves."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer.errors import CommitConflictError, CommitStateUnknownError, ThrottledError
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Expectation, Proof
from ray_committer.stages.rename_files import publish_entry
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore
from ray_committer.testing.harness import put_file
from tests.stages.support import at, do_at, requests

SOURCE, DEST = "/table/_temporary/tasks/a", "/table/p=1/a"
VERSIONED = pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION])


def written(identity: Identity = Identity.MODIFICATION_TIME) -> MemoryStore:
    store = MemoryStore(identity=identity)
    put_file(store, SOURCE, b"text")
    store.mkdirs("/table/p=1")
    return store


def entry_of(store: MemoryStore) -> Entry:
    status = store.get_status(SOURCE)
    assert status is not None
    expected = Expectation(status.size, status.etag, status.modified_milliseconds)
    return Rename(SOURCE, DEST, expected, status.version)


def old_file(store: MemoryStore, data: bytes = b"old") -> ReplacedFile:
    put_file(store, DEST, data)
    status = store.get_status(DEST)
    assert status is not None
    return ReplacedFile(DEST, status.size, status.modified_milliseconds, status.etag, status.version)


@pytest.mark.parametrize("identity", list(Identity))
def test_a_rename_without_a_fault_is_one_request(identity: Identity):
    store = written(identity)
    one = entry_of(store)
    assert requests(store, lambda counted: publish_entry(counted, one, 8)) == Counter(rename=1)
    assert store.files() == {DEST: b"text"}


def test_a_rename_that_was_done_before_costs_a_look_at_each_end():
    store = written()
    one = entry_of(store)
    store.rename(SOURCE, DEST)
    found = requests(store, lambda counted: publish_entry(counted, one, 8))
    assert found == Counter(rename=1, get_status=2)


def test_a_rename_over_an_old_file_costs_three_looks_and_a_replacement():
    store = written()
    one, old = entry_of(store), old_file(store)
    found = requests(store, lambda counted: publish_entry(counted, one, 8, old))
    assert found == Counter(rename=1, get_status=3, replace=1)
    assert store.files() == {DEST: b"text"}


@pytest.mark.parametrize(
    ("identity", "proof"),
    [
        (Identity.ETAG, Proof.ETAG),
        (Identity.GENERATION, Proof.ETAG),
        (Identity.MODIFICATION_TIME, Proof.MODIFICATION_TIME),
        (Identity.SIZE_ONLY, Proof.SIZE_ONLY),
    ],
)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileExistsError, FileNotFoundError])
def test_a_rename_whose_answer_is_lost_is_proved_by_what_the_store_keeps(identity, proof: Proof, error):
    store = written(identity)
    lossy = WrappedStore(store, after=at("rename", error("simulated")))
    assert publish_entry(lossy, entry_of(store), 1) is proof
    assert store.files() == {DEST: b"text"}


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileExistsError, FileNotFoundError])
def test_a_rename_that_did_not_take_place_leaves_the_file_with_its_task(error: type[OSError]):
    store = written()
    with pytest.raises(CommitStateUnknownError, match="could not be renamed"):
        publish_entry(WrappedStore(store, before=at("rename", error(5, "why"))), entry_of(store), 1)
    assert store.files() == {SOURCE: b"text"}


@pytest.mark.parametrize("error", [PermissionError("denied"), ThrottledError("/table", None)])
def test_what_another_try_does_not_change_is_tried_once(error: OSError):
    store, again = written(), []
    one = entry_of(store)

    def run(counted) -> None:
        with pytest.raises(CommitStateUnknownError):
            publish_entry(counted, one, 8, on_retry=lambda: again.append(None))

    assert requests(WrappedStore(store, before=at("rename", error)), run)["rename"] == 1
    assert again == []


def test_a_directory_that_is_gone_is_made_and_the_file_is_moved():
    store = written()
    one = entry_of(store)
    store.remove_empty_directory(parent(DEST))
    found = requests(store, lambda counted: publish_entry(counted, one, 8))
    assert found == Counter(rename=2, get_status=2, mkdirs=1)
    assert store.files() == {DEST: b"text"}


def test_a_directory_is_made_once_if_the_store_does_not_find_it_even_then():
    store = written()
    one, missing = entry_of(store), at("rename", FileNotFoundError("gone"))

    def run(counted) -> None:
        with pytest.raises(CommitStateUnknownError, match="could not be renamed"):
            publish_entry(counted, one, 8)

    found = requests(WrappedStore(store, before=missing), run)
    assert (found["rename"], found["mkdirs"]) == (2, 1)
    assert store.files() == {SOURCE: b"text"}


def test_no_directory_is_made_for_a_file_that_is_not_where_its_task_wrote_it():
    store = written()
    one = entry_of(store)
    store.delete_file(SOURCE)
    store.remove_empty_directory(parent(DEST))
    with pytest.raises(CommitStateUnknownError, match="put the file back at either path"):
        publish_entry(store, one, 8)
    assert store.get_status(parent(DEST)) is None


def test_a_file_in_the_place_of_a_directory_that_is_gone_is_a_conflict_and_nothing_is_moved():
    store = written()
    one = entry_of(store)
    store.remove_empty_directory(parent(DEST))
    put_file(store, parent(DEST), b"of somebody else")
    missing = at("rename", FileNotFoundError(2, "gone"))
    with pytest.raises(CommitConflictError, match="is a file where the job needs a directory"):
        publish_entry(WrappedStore(store, before=missing), one, 8)
    assert store.files() == {SOURCE: b"text", parent(DEST): b"of somebody else"}


@pytest.mark.parametrize("end", [SOURCE, DEST])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_an_end_that_cannot_be_looked_at_leaves_both_as_they_are(end: str, error: type[OSError]):
    store = written()
    fail, hide = at("rename", TimeoutError("lost")), at("get_status", error("no answer"), end)

    def both(call: StoreCall) -> None:
        fail(call)
        hide(call)

    with pytest.raises(CommitStateUnknownError, match="it is not known whether the file arrived"):
        publish_entry(WrappedStore(store, before=both), entry_of(store), 8)
    assert store.files() == {SOURCE: b"text"}


def test_a_source_that_vanishes_at_the_last_moment_is_a_loss():
    store = written()
    one = entry_of(store)
    gone = do_at("rename", lambda: store.delete_file(SOURCE))
    with pytest.raises(CommitStateUnknownError, match="put the file back at either path"):
        publish_entry(WrappedStore(store, before=gone), one, 8)


@pytest.mark.parametrize("left", ["source too", "no source"])
def test_another_file_at_the_destination_stays(left: str):
    store = written()
    one = entry_of(store)
    put_file(store, DEST, b"of somebody else")
    if left == "no source":
        store.delete_file(SOURCE)
    with pytest.raises(CommitConflictError):
        publish_entry(store, one, 8)
    assert store.read(DEST) == b"of somebody else"


@pytest.mark.parametrize("end", [SOURCE, DEST])
def test_a_directory_at_either_end_is_a_conflict(end: str):
    store = written()
    one = entry_of(store)
    store.delete_file(end)
    store.mkdirs(end)
    with pytest.raises(CommitConflictError):
        publish_entry(store, one, 8)


def test_an_old_file_that_changed_since_it_was_recorded_is_not_replaced():
    store = written()
    one, old = entry_of(store), old_file(store)
    put_file(store, DEST, b"new")
    with pytest.raises(CommitConflictError, match="nothing was overwritten"):
        publish_entry(store, one, 8, old)
    assert store.files() == {SOURCE: b"text", DEST: b"new"}


def test_an_old_file_that_is_gone_needs_no_replacement():
    store = written()
    one, old = entry_of(store), old_file(store)
    store.delete_file(DEST)
    assert publish_entry(store, one, 1, old) is None
    assert store.files() == {DEST: b"text"}


@VERSIONED
@pytest.mark.parametrize("data", [b"of another program", b"old"])
@pytest.mark.parametrize("attempts", [1, 8])
def test_an_old_file_that_is_written_again_before_it_is_replaced_stays_where_versions_are(
    identity: Identity, data: bytes, attempts: int
):
    """A replacement names the version that was recorded; also the same bytes are another one."""
    store = written(identity)
    one, old = entry_of(store), old_file(store)
    overtaken = WrappedStore(store, before=do_at("replace", lambda: store.write(DEST, data)))
    with pytest.raises(CommitConflictError, match="nothing was overwritten"):
        publish_entry(overtaken, one, attempts, old)
    assert store.files() == {SOURCE: b"text", DEST: data}


@VERSIONED
def test_an_old_file_that_was_written_again_with_the_same_bytes_is_not_asked_to_be_replaced(
    identity: Identity,
):
    store = written(identity)
    one, old = entry_of(store), old_file(store)
    store.write(DEST, b"old")

    def run(counted) -> None:
        with pytest.raises(CommitConflictError, match="nothing was overwritten"):
            publish_entry(counted, one, 8, old)

    assert requests(store, run)["replace"] == 0


@VERSIONED
@pytest.mark.parametrize("answer", [None, FileNotFoundError("404")], ids=["412", "404"])
def test_an_old_file_that_vanishes_before_it_is_replaced_needs_no_replacement(
    identity: Identity, answer: OSError | None
):
    """Which of the two a store answers to a condition on nothing is not the same everywhere."""
    store = written(identity)
    one, old = entry_of(store), old_file(store)

    def vanish() -> None:
        store.delete_file(DEST)
        if answer is not None:
            raise answer

    assert publish_entry(WrappedStore(store, before=do_at("replace", vanish)), one, 2, old) is None
    assert store.files() == {DEST: b"text"}


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION, Identity.MODIFICATION_TIME])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileExistsError, FileNotFoundError])
def test_a_replacement_whose_answer_is_lost_is_proved_at_once(identity: Identity, error: type[OSError]):
    """Or a server was asked again by a gateway, and has refused what it had done."""
    store = written(identity)
    one, old = entry_of(store), old_file(store)
    lossy = WrappedStore(store, after=at("replace", error("simulated")))
    has_time = identity is Identity.MODIFICATION_TIME
    proof = Proof.MODIFICATION_TIME if has_time else Proof.ETAG
    assert publish_entry(lossy, one, 1, old) is proof
    assert store.files() == {DEST: b"text"}


def test_an_old_file_that_looks_like_the_new_one_is_not_a_proof():
    store = written(Identity.SIZE_ONLY)
    one, old = entry_of(store), old_file(store, b"TEXT")
    store.delete_file(SOURCE)
    with pytest.raises(CommitStateUnknownError, match="is gone and"):
        publish_entry(store, one, 8, old)
    assert store.files() == {DEST: b"TEXT"}
