"""What a store promises about uploads, which are the files of every commit where nothing is renamed."""

from __future__ import annotations

from contextlib import suppress

from ray_committer.promises.promise import (
    COMPLETES_UPLOADS,
    MISSES_FILES,
    RIVALS,
    OwnDirectory,
    Promise,
    check,
    race,
    refused,
)
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.uploads import pending_uploads

_STAMP = "0123456789abcdef"


def _complete(sandbox: OwnDirectory) -> str:
    """Nobody sees an upload before it is completed; then the file is as its task wrote it."""
    store, path = sandbox.store, sandbox.at("d/a")
    action = _begin(store, path, b"content")
    hidden = sandbox.status("d/a") is None and sandbox.store.list_files(sandbox.at("d")) == []
    check(hidden, "a file was visible before its upload was completed")
    check(store.is_pending(path, action.id), "an upload was not pending before it was completed")
    done = store.publish(action) is Answer.DONE and sandbox.content("d/a") == b"content"
    check(done, "an upload was not completed with its content")
    check(not store.is_pending(path, action.id), "a completed upload is still pending")
    status = sandbox.status("d/a")
    stamped = status is not None and status.stamp == _STAMP
    check(stamped, "a file has not the stamp in its metadata that its upload was given")
    listed = [status.etag for status in sandbox.store.list_files(sandbox.at("d"))]
    check(status is not None and listed == [status.etag], "a listing shows another etag than the file")
    empty = _begin(store, sandbox.at("empty"), b"")
    done = store.publish(empty) is Answer.DONE and sandbox.content("empty") == b""
    check(done, "no empty file was made")
    return "invisible until it is completed, then as it was written"


def _never_replaces(sandbox: OwnDirectory) -> str:
    """An upload is not completed where a file is, whatever its content, and stays pending."""
    store, path = sandbox.store, sandbox.put("a", b"old")
    action = _begin(store, path, b"new")
    check(store.publish(action) is Answer.TAKEN, "the completion of an upload replaced a file")
    kept = sandbox.content("a") == b"old" and store.is_pending(path, action.id)
    check(kept, "a refused completion changed a file, or ended its upload")
    sandbox.store.delete_file(path)
    check(store.publish(action) is Answer.DONE, "an upload was not completed after a refusal")
    return "refused, the file is unchanged, and the upload is still there"


def _again(sandbox: OwnDirectory) -> str:
    """An upload that was completed is confirmed or unknown, and makes no file a second time."""
    store, path = sandbox.store, sandbox.at("a")
    action = _begin(store, path, b"content")
    store.publish(action)
    answer = store.publish(action)
    known = answer in (Answer.DONE, Answer.NO_UPLOAD, Answer.TAKEN)
    check(known and sandbox.content("a") == b"content", "a second completion changed a file")
    store.abort_upload(path, action.id)
    check(not store.is_pending(path, action.id), "a completed upload is pending after its abort")
    check(sandbox.content("a") == b"content", "the abort of a completed upload removed its file")
    return f"a second completion is answered with: {answer}"


def _abort(sandbox: OwnDirectory) -> str:
    """An aborted upload cannot be completed; a second abort is no error."""
    store, path = sandbox.store, sandbox.at("a")
    action = _begin(store, path, b"content")
    for _ in range(2):
        store.abort_upload(path, action.id)
        check(not store.is_pending(path, action.id), "an aborted upload is still there")
    with suppress(OSError):
        check(store.publish(action) is not Answer.DONE, "an aborted upload was completed")
    check(sandbox.status("a") is None, "an aborted upload made a file")
    return "aborted, and never completed after that"


def _is_listed(sandbox: OwnDirectory) -> str:
    """Pending uploads below a directory are listed with their ids, and no others."""
    store = sandbox.store
    wanted = {
        (action.dest, action.id)
        for action in (_begin(store, sandbox.at(name), b"1") for name in ("d/a", "d/e/b"))
    }
    beside = _begin(store, sandbox.at("dd"), b"1")
    done = _begin(store, sandbox.at("d/c"), b"1")
    store.publish(done)
    listed = {(upload.path, upload.id) for upload in pending_uploads(sandbox.store, sandbox.at("d"))}
    shown = {(path, upload) for path, upload in wanted if store.is_pending(path, upload)}
    check(listed == wanted == shown, "a listing does not show exactly the pending uploads", MISSES_FILES)
    for path, upload in {*wanted, (beside.dest, beside.id)}:
        store.abort_upload(path, upload)
    left = list(pending_uploads(sandbox.store, sandbox.path))
    check(not left, "a listing shows aborted uploads", MISSES_FILES)
    return "exactly those below a directory"


def _deletes_listed(sandbox: OwnDirectory) -> str:
    """Objects that were listed are deleted, and no others; the mark of a directory is one of them."""
    store = sandbox.store
    sandbox.put("d/a", b"1")
    sandbox.put("e", b"2")
    sandbox.store.mkdirs(sandbox.at("d/b"))
    listed = store.list_objects(sandbox.at("d"))
    wanted = {sandbox.at("d/"), sandbox.at("d/a"), sandbox.at("d/b/")}
    check({status.path for status in listed} == wanted, "a listing does not show all objects")
    store.delete_objects(listed)
    check(store.list_objects(sandbox.at("d")) == [], "listed objects were not deleted")
    check(sandbox.content("e") == b"2", "an object that was not listed was deleted")
    return "exactly those that were listed"


def _one_wins(sandbox: OwnDirectory) -> str:
    """Of several simultaneous completions at one name, exactly one succeeds."""
    store, path = sandbox.store, sandbox.at("dest")
    actions = [_begin(store, path, b"%d" % number) for number in range(RIVALS)]
    answers = race(lambda number: store.publish(actions[number]), OSError)
    won = [number for number, answer in enumerate(answers) if answer is Answer.DONE]
    check(len(won) == 1, f"of {RIVALS} simultaneous completions at one name {len(won)} succeeded")
    left = [action for action in actions if store.is_pending(path, action.id)]
    for action in left:
        store.abort_upload(path, action.id)
    kept = len(left) == RIVALS - 1 and sandbox.content("dest") in {b"%d" % n for n in range(RIVALS)}
    check(kept, "simultaneous completions at one name lost a file")
    return f"of {RIVALS} simultaneous completions at one name one succeeded"


def _one_creates(sandbox: OwnDirectory) -> str:
    """Of several simultaneous writes of one new file, exactly one succeeds; none replaces a file."""
    store, path = sandbox.store, sandbox.at("new")

    def create(number: int) -> int:
        store.create(path, b"%d" % number)
        return number

    made = race(create, FileExistsError)
    check(len(made) == 1, f"of {RIVALS} simultaneous writes of one new file {len(made)} succeeded")
    with refused(FileExistsError, otherwise="a file was replaced by a write that must not replace"):
        store.create(path, b"other")
    check(sandbox.content("new") == b"%d" % made[0], "a new file is not as the write that succeeded")
    return f"of {RIVALS} simultaneous writes of one new file one succeeded"


def _has_no_rename(sandbox: OwnDirectory) -> str:
    """A rename is refused, because it would be a copy."""
    source = sandbox.put("a", b"1")
    for rename in (sandbox.store.rename, sandbox.store.replace):
        with refused(OSError, otherwise="a file was renamed by a copy"):
            rename(source, sandbox.at("b"))
    kept = sandbox.content("a") == b"1" and sandbox.status("b") is None
    check(kept, "a refused rename changed a file")
    return "refused, nothing is copied"


def _begin(store: StoreOperations, path: str, data: bytes) -> CompleteUpload:
    """Upload a file in one part; return how to complete it."""
    upload = store.begin_upload(path, _STAMP)
    return CompleteUpload(path, upload, (store.put_part(path, upload, 1, data),), stamp=_STAMP)


ONE_COMPLETES = Promise("one of many completions wins", _one_wins, (COMPLETES_UPLOADS,))

PROMISES = (
    Promise("complete an upload", _complete, (COMPLETES_UPLOADS,)),
    Promise("completion never replaces", _never_replaces, (COMPLETES_UPLOADS,)),
    Promise("completion again", _again, (COMPLETES_UPLOADS,)),
    Promise("abort an upload", _abort, (COMPLETES_UPLOADS,)),
    Promise("pending uploads are listed", _is_listed, (COMPLETES_UPLOADS,)),
    Promise("listed objects are deleted", _deletes_listed, (COMPLETES_UPLOADS,)),
    ONE_COMPLETES,
    Promise("one of many new files wins", _one_creates, (COMPLETES_UPLOADS,)),
    Promise("no rename", _has_no_rename, (COMPLETES_UPLOADS,)),
)
