"""Moving one directory whole: what each answer of the store leads to, and what never counts as done."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.whole import ByFile, Move
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore
from ray_committer.testing.harness import put_file
from ray_committer.work.move_whole import ATTEMPTS, Left, delete_leftovers, move_whole
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, at, at_call, calls_of, context, requests
from tests.stages.whole import DEST, FILES, SOURCE, TASKS, move_of, with_source

pytestmark = pytest.mark.usefixtures("no_pauses")
MOVED = {f"{DEST}/{name}": data for name, data in FILES.items()}
STAYED = {f"{TASKS}/{SOURCE}/{name}": data for name, data in FILES.items()}


MOVE = move_of(with_source())
Answer = Proof | Left | None


def run(store, move: Move = MOVE) -> Answer:
    return move_whole(store, TASKS, move)


def answer_and_requests(store, move: Move = MOVE) -> tuple[Answer, Counter[str]]:
    answers: list[Answer] = []
    found = requests(store, lambda one: answers.append(run(one, move)))
    return answers[0], found


def test_a_move_is_one_request():
    store = with_source()
    calls = calls_of(store, run)
    assert calls == [StoreCall("move_whole", (f"{TASKS}/{SOURCE}", DEST))]
    assert store.files() == MOVED


@pytest.mark.parametrize(
    ("identity", "proof"),
    [(Identity.MODIFICATION_TIME, Proof.MODIFICATION_TIME), (Identity.ETAG, Proof.ETAG)],
)
def test_what_an_earlier_run_has_moved_is_proved_by_one_listing(identity: Identity, proof: Proof):
    store = with_source(MemoryStore(identity=identity))
    move = move_of(store)
    assert run(store, move) is None
    once = Counter(move_whole=1, get_status=1, list_status=1)
    assert answer_and_requests(store, move) == (proof, once)


@pytest.mark.parametrize("error", [StoreUnavailableError(5, "lost"), PermissionError(13, "denied")])
def test_a_move_whose_answer_is_lost_is_proved(error: OSError):
    store = with_source()
    assert run(WrappedStore(store, after=at("move_whole", error))) is Proof.MODIFICATION_TIME
    assert store.files() == MOVED


def test_a_move_without_an_answer_that_was_not_made_is_made_again():
    store, once = with_source(), Counter[str]()

    def lose(call: StoreCall) -> None:
        once[call.operation] += 1
        if call.operation == "move_whole" and once["move_whole"] < ATTEMPTS:
            raise StoreUnavailableError(5, "lost")

    assert run(WrappedStore(store, before=lose)) is None
    assert once == Counter(move_whole=ATTEMPTS, get_status=ATTEMPTS - 1)


@pytest.mark.parametrize("error", [StoreUnavailableError(5, "lost"), ThrottledError(DEST)])
def test_a_store_that_never_moves_it_stops_the_commit_and_nothing_has_changed(error: OSError):
    store = with_source()
    with pytest.raises(CommitStateUnknownError, match="could not be renamed to"):
        run(WrappedStore(store, before=at("move_whole", error)))
    assert store.files() == STAYED


def test_a_missing_parent_is_made_and_the_move_made_again():
    store, dest = with_source(), "/table/new/p=1"
    once = Counter(move_whole=2, get_status=1, mkdirs=1)
    assert answer_and_requests(store, move_of(store, dest)) == (None, once)
    assert store.files() == {f"{dest}/{name}": data for name, data in FILES.items()}


def test_a_parent_that_is_taken_away_again_leaves_it_to_be_moved_by_file():
    store = with_source()
    wrapped = WrappedStore(store, before=at("move_whole", FileNotFoundError(2, "no parent")))
    left = run(wrapped)
    assert isinstance(left, Left)
    assert left.reason is ByFile.REFUSED
    assert store.files() == STAYED
    assert store.list_status(DEST) == []


@pytest.mark.parametrize("content", [None, b"of others"])
def test_a_place_that_is_there_is_left_to_be_filled_by_file(content: bytes | None):
    """Also an empty one: another job can have made it, and be about to write there."""
    store = with_source()
    store.mkdirs(DEST)
    if content is not None:
        store.write(f"{DEST}/other", content)
    assert run(store) == Left(SOURCE, ByFile.THERE)
    of_others = {} if content is None else {f"{DEST}/other": content}
    assert store.files() == {**STAYED, **of_others}


def test_a_file_in_the_place_of_a_directory_is_named():
    store = with_source()
    store.write(DEST, b"a file")
    with pytest.raises(CommitConflictError, match=f"{DEST}: is a file where the job needs a directory"):
        run(store)
    assert store.files() == {**STAYED, DEST: b"a file"}


REFUSALS = [
    *(PermissionError(number, "denied") for number in (errno.EACCES, errno.EPERM)),
    *(OSError(number, "refused") for number in (errno.EXDEV, errno.EDQUOT, errno.ENOSPC)),
    *(OSError(number, "refused") for number in (errno.ENOTSUP, errno.EINVAL, errno.EBUSY)),
    StoreRefusedError("refused"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=str)
def test_a_refused_directory_is_left_to_be_filled_by_file_with_the_words_of_the_store(error: Exception):
    store = with_source()
    left = run(WrappedStore(store, before=at("move_whole", error)))
    assert isinstance(left, Left)
    assert (left.reason, left.source) == (ByFile.REFUSED, SOURCE)
    assert ("denied" if isinstance(error, PermissionError) else "refused") in left.words
    assert store.files() == STAYED
    assert store.list_status(DEST) == []


def another(store: MemoryStore) -> None:
    put_file(store, f"{DEST}/other", b"of others")


def fewer(store: MemoryStore) -> None:
    store.delete_file(f"{DEST}/{min(FILES)}")


def equal_in_number(store: MemoryStore) -> None:
    fewer(store)
    another(store)


def newer(store: MemoryStore) -> None:
    store.write(f"{DEST}/{min(FILES)}", FILES[min(FILES)])


def gone(store: MemoryStore) -> None:
    store.delete_directory(DEST)


@pytest.mark.parametrize("change", [another, fewer, equal_in_number, newer, gone])
def test_only_all_files_and_no_others_prove_that_a_directory_is_in_place(
    change: Callable[[MemoryStore], None],
):
    store = with_source()
    assert run(store) is None
    change(store)
    before = store.files()
    assert run(store) == Left(SOURCE, ByFile.THERE)
    assert store.files() == before


@pytest.mark.parametrize("look", ["get_status", "list_status"])
def test_a_store_that_does_not_show_what_became_of_it_stops_the_commit(look: str):
    store = with_source()
    run(store)
    with pytest.raises(CommitStateUnknownError, match=f"{DEST}: it is not known whether the directory"):
        run(WrappedStore(store, before=at(look, PermissionError(13, "denied"))))


def test_a_move_that_is_made_late_is_found_by_its_files():
    """The request had no answer, the source was seen, and then the request was carried out."""
    store = with_source()
    late = at_call(2, lambda: store.move_whole(f"{TASKS}/{SOURCE}", DEST))
    assert run(WrappedStore(store, before=at_call(1, lost), after=late)) is Proof.MODIFICATION_TIME
    assert store.files() == MOVED


def lost() -> None:
    raise StoreUnavailableError(5, "lost")


def worker_of(store) -> Worker:
    return Worker(store, JOB, context(store).executor.permits, in_driver=True)


def test_leftovers_are_deleted_by_name_and_nothing_else():
    store = with_source()
    store.write(f"{TASKS}/{SOURCE}/left", b"left")
    assert delete_leftovers(worker_of(store), TASKS, [move_of(store, leftovers=("left", "gone"))]) == {}
    assert store.files() == STAYED


def test_a_leftover_that_stays_keeps_its_directory_from_being_moved_whole():
    store = with_source()
    store.write(f"{TASKS}/{SOURCE}/left", b"left")
    denied = WrappedStore(store, before=at("delete_file", PermissionError(13, "denied"), "left"))
    stuck = delete_leftovers(worker_of(denied), TASKS, [move_of(store, leftovers=("left",))])
    assert stuck.keys() == {SOURCE}
    assert stuck[SOURCE].reason is ByFile.REFUSED
