"""Complete one upload; after any other answer than a confirmation, judge from what the store shows.

Optimistic: one request for each file. A file never counts as completed without proof: neither the answer
to a second request is reliable (servers differ) nor equal content alone.
"""

from __future__ import annotations

from collections.abc import Callable

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    RayCommitterError,
    StoreUnavailableError,
    mark,
    why,
)
from ray_committer.limits import waiting
from ray_committer.protocol.actions import Answer, CompleteUpload, Place, compare_place, judge_complete
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Judgement, Proof, Verdict
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.end_upload import end_upload
from ray_committer.work.entries import STAYS, OldFileStaysError

_PASSING = (StoreUnavailableError, TimeoutError, ConnectionError)
_ANEW = (
    "give up the commit with abort --undo or, if that is refused because the job is sealed, delete its "
    "directory below _temporary; then run the application again in the same mode"
)
LOOKS_AFTER = 2
"""An unclear answer is asked for again at once; from this one on, the store is looked at, too."""


def complete_entry(
    store: StoreOperations,
    action: CompleteUpload,
    attempts: int,
    old: ReplacedFile | None = None,
    *,
    on_retry: Callable[[], None] = lambda: None,
) -> Proof | None:
    """Complete one upload; None if that was done now, else the proof that it was done before. `old` is
    the recorded file that this one replaces. Errors as `publish_entry`."""
    for attempt in range(1, attempts + 1):
        # First without replacing, also where an old file is known: it may be gone by now, and the answer
        # shows it without another request.
        looks_after = 0 if attempt == attempts else LOOKS_AFTER
        answer, cause = _ask(store, action, None)
        judgement, file = _judge(store, action, answer, look=_must_look(attempt, cause, looks_after))
        # Then bound to the version of the old file that was just seen, so that no other file is
        # replaced.
        if judgement.verdict is Verdict.CONFLICT and file is not None and _is_old(file, old):
            answer, cause = _ask(store, action, file.version)
            judgement, file = _judge(store, action, answer, look=_must_look(attempt, cause, looks_after))
            if judgement.verdict is Verdict.CONFLICT and _is_old(file, old):
                judgement = Judgement(Verdict.NOT_DONE)
        if judgement.verdict is Verdict.DONE:
            return judgement.proof
        is_pending = judgement.verdict is Verdict.NOT_DONE
        # The upload still waits and the old file is in its place: the caller holds this file back and
        # goes on with the others (D5).
        if cause is not None and cause.errno in STAYS and is_pending and _is_old(file, old):
            raise OldFileStaysError(cause) from cause
        # Any other error is the store's last word for this request; asking again would only repeat it.
        is_hopeless = cause is not None and not isinstance(cause, _PASSING)
        if judgement.verdict is not Verdict.NOT_DONE or is_hopeless or attempt == attempts:
            raise _error(action, judgement, answer, cause) from cause
        on_retry()
        waiting.sleep(waiting.REQUEST.after(attempt))
    raise AssertionError("the last attempt returns or raises")


def require_pending(store: StoreOperations, action: CompleteUpload) -> None:
    """`CommitStateUnknownError` unless the upload waits for its completion."""
    if not store.is_pending(action.dest, action.id):
        raise CommitStateUnknownError(
            f"{_named(action)} is gone, but must replace the file that is still there",
            "give up the commit with abort --undo, and run the task again",
        )


def take_back_upload(
    store: StoreOperations, action: CompleteUpload, overwritten: frozenset[str]
) -> str | None:
    """Abort an upload or, if it was completed, delete its file; idempotent. Returns the path of a file
    that is kept but may be the job's. The job has completed nothing in the place of an old file in
    `overwritten`. Only the job's stamp proves a file or, as Hadoop's have none, its id in the name."""
    # Without a stamp only this look tells an older file of the same bytes from the one that an upload
    # made meanwhile.
    before = store.get_status(action.dest) if action.stamp is None else None
    file = end_upload(store, action.dest, action.id, before).file
    if file is None or action.dest in overwritten:
        return None
    is_ours = place_of(action, file) in (Place.SAME_ETAG, Place.SAME_STAMP)
    is_named = file.stamp is None and action.job is not None and action.job in file.name
    if not is_ours or not (file.stamp == action.stamp or is_named):
        return action.dest
    try:
        # Bound to the version that was judged: what another program puts there now stays (D6).
        store.delete_version(action.dest, file.version)
    except FileExistsError:
        return action.dest
    return None


def place_of(action: CompleteUpload, file: FileStatus | None) -> Place:
    """Compare what is at the destination with the file that the upload makes."""
    if file is None or file.is_directory:  # an object can be beside names below it
        return Place.EMPTY
    return compare_place(action, file.observation(), file.stamp)


def _ask(
    store: StoreOperations, action: CompleteUpload, replaced: str | None
) -> tuple[Answer, OSError | None]:
    try:
        return store.publish(action, replaced), None
    except OSError as e:
        return Answer.UNCLEAR, e


def _must_look(attempt: int, cause: OSError | None, looks_after: int) -> bool:
    """Whether an unclear answer must be judged now: no answer at all is asked for again first."""
    return attempt >= looks_after or (cause is not None and not isinstance(cause, StoreUnavailableError))


def _judge(
    store: StoreOperations, action: CompleteUpload, answer: Answer, *, look: bool
) -> tuple[Judgement, FileStatus | None]:
    """Judge an answer, and judge again before a conflict: another committer of the job may have
    completed the upload between the look at the upload and the one at its destination."""
    judgement, file = judge_complete(answer, None, None), None
    if judgement.verdict is Verdict.DONE or (answer is Answer.UNCLEAR and not look):
        return judgement, file
    for _ in range(2):
        is_pending: bool | None = None
        try:
            # The upload first: one that is completed between the two looks shows as a file, and is never
            # taken for lost.
            if answer is not Answer.NO_UPLOAD:
                is_pending = store.is_pending(action.dest, action.id)
            file = store.get_status(action.dest)
        except OSError as e:
            raise CommitStateUnknownError(
                f"{mark(action.dest)}: it is not known whether the file arrived: the store cannot show "
                f"it ({why(e)})",
                "fix that and run the same command",
            ) from e
        judgement = judge_complete(answer, place_of(action, file), is_pending)
        if judgement.verdict is not Verdict.CONFLICT:
            break
    return judgement, None if file is not None and file.is_directory else file


def _is_old(file: FileStatus | None, old: ReplacedFile | None) -> bool:
    return file is not None and old is not None and (file.size, file.etag) == (old.size, old.etag)


def _named(action: CompleteUpload) -> str:
    task = f" of {action.task}" if action.task else ""
    return f"{mark(action.dest)}: its upload {action.id}{task}"


def _error(
    action: CompleteUpload, judgement: Judgement, answer: Answer, cause: OSError | None
) -> RayCommitterError:
    if judgement.verdict is Verdict.CONFLICT and answer is Answer.NO_UPLOAD:
        return CommitConflictError(
            f"{_named(action)} is gone, and the file that is there is another one",
            f"nothing was overwritten: if it may go, move it away, and {_ANEW}",
        )
    if judgement.verdict is Verdict.CONFLICT:
        return CommitConflictError(
            f"{mark(action.dest)}: is there already and is not the file that the task uploaded",
            "nothing was overwritten: move it away and run the same command",
        )
    if judgement.verdict is Verdict.LOST or answer is Answer.NO_UPLOAD:
        return CommitStateUnknownError(
            f"{_named(action)} is gone and no file of it is there, so it was aborted by a rule of the "
            f"bucket that aborts incomplete uploads, or another program aborted it or deleted the file",
            f"{_ANEW}; give the rule of the bucket more days",
        )
    reason = why(cause) if cause else f"the answer was {answer}"
    return CommitStateUnknownError(
        f"{_named(action)} could not be completed ({reason})",
        "fix that and run the same command to finish the commit",
    )
