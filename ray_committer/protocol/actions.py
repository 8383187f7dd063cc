"""The two actions that put a file in place: a rename, and the completion of an upload.

S3 renames nothing. A task uploads the parts of a file, and nobody sees the file until the upload is
completed: one atomic request, like a rename. The etag of the completed file follows from the etags of
its parts, so it is known before.

An upload's id is used once. While it is pending, a file with the etag that we expect is another one:
equal bytes have equal etags. When it is not pending, and such a file is there, it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from hashlib import md5

import msgspec

from ray_committer.errors import mark
from ray_committer.protocol.recovery import Expectation, Judgement, Observation, Proof, Verdict

_MD5 = re.compile(r"[0-9a-f]{32}")
LEAST_PART_BYTES = 5 << 20
"""The least size of all parts of an upload except the last."""


class Rename(msgspec.Struct, frozen=True, gc=False):  # a dataclass takes five times as long to make
    """Rename `source`, at its `version`, to `dest`, where no file is; `expected` is the file."""

    source: str
    dest: str
    expected: Expectation
    version: str | None = None

    @property
    def whence(self) -> str:
        """Where the file comes from, in words."""
        return mark(self.source)


class CompleteUpload(msgspec.Struct, frozen=True, gc=False):
    """Complete an upload, by its `id` and the etags of its `parts` in order, where no file is. `etag` is
    the completed file's, and `stamp` the stamp of the job in its metadata; None is not known. `task` is
    the task attempt that uploaded it, `job` the id of its job, `size` the bytes of the file."""

    dest: str
    id: str
    parts: tuple[str, ...]
    etag: str | None = None
    stamp: str | None = None
    task: str | None = None
    job: str | None = None
    size: int = 0

    @property
    def source(self) -> str:
        """Its destination, since an upload has no name before it is completed."""
        return self.dest

    @property
    def whence(self) -> str:
        """Where the file comes from, in words."""
        return f"an upload of {self.task}"

    @property
    def expected(self) -> Expectation:
        return Expectation(self.size, self.etag)


class Answer(StrEnum):
    """The answer to a request that completes an upload."""

    DONE = "done"
    """The store confirms it."""
    UNCLEAR = "unclear"
    """No answer, an error of the server, or a conflict with a request for the same object."""
    NO_UPLOAD = "no upload"
    """There is no such upload: it was completed or aborted."""
    TAKEN = "taken"
    """The condition does not hold: a file is there, or not the one that is to be replaced."""


class Place(StrEnum):
    """What is at an upload's destination, compared with the file that it makes."""

    EMPTY = "empty"
    SAME_ETAG = "same etag"
    SAME_STAMP = "same stamp"
    """Its etag proves nothing, but its metadata has the job's stamp."""
    OTHER = "other"


def judge_complete(answer: Answer, place: Place | None, is_pending: bool | None) -> Judgement:
    """Decide whether an upload was completed, from the answer and what was seen after it.

    `is_pending` is whether the store still has the upload, and `place` was looked at after that; both
    are None if nobody has looked. NOT_DONE means: ask again. An answer that says that there is no upload
    needs no further look at the upload. If the upload is pending and a file is there, the file may have
    come from this upload since the look at it: look twice before you report a conflict.
    """
    if answer is Answer.DONE:
        return Judgement(Verdict.DONE)
    # The answer itself shows that the upload is not pending, so the look at it is saved.
    if answer is Answer.NO_UPLOAD:
        is_pending = False
    if place is None or is_pending is None:
        return Judgement(Verdict.NOT_DONE)
    # Nothing was done with it yet. A file there is another one only if the store refused because of it:
    # any other answer may still be on its way.
    if is_pending:
        is_taken = answer is Answer.TAKEN and place is not Place.EMPTY
        return Judgement(Verdict.CONFLICT if is_taken else Verdict.NOT_DONE)
    return _OF_ENDED_UPLOAD[place]


_OF_ENDED_UPLOAD = {
    # It has ended without a file: someone aborted it, or the file is deleted already.
    Place.EMPTY: Judgement(Verdict.LOST),
    Place.SAME_ETAG: Judgement(Verdict.DONE, Proof.ETAG),
    Place.SAME_STAMP: Judgement(Verdict.DONE, Proof.STAMP),
    Place.OTHER: Judgement(Verdict.CONFLICT),
}


def compare_place(action: CompleteUpload, file: Observation | None, stamp: str | None) -> Place:
    """Compare the `file` at an upload's destination, with this `stamp`, with the one that it makes. A
    known etag decides alone; the stamp proves a file of this job and size, where one task writes."""
    if file is None:
        return Place.EMPTY
    # Before the etag: an etag that is unknown must not hide another size.
    if file.size != action.size:
        return Place.OTHER
    if action.etag is not None:
        return Place.SAME_ETAG if file.etag == action.etag else Place.OTHER
    is_ours = action.stamp is not None and stamp == action.stamp
    return Place.SAME_STAMP if is_ours else Place.OTHER


def predict_etag(parts: Sequence[str]) -> str | None:
    """Return the etag that a completed upload has, from the etags of its parts; None if those are not
    MD5 sums, as with encryption by keys of KMS or of the client."""
    if not parts or not all(map(_MD5.fullmatch, parts)):
        return None
    # S3's rule: MD5 over the MD5 sums of the parts, and their number.
    joined = b"".join(map(bytes.fromhex, parts))
    return f"{md5(joined, usedforsecurity=False).hexdigest()}-{len(parts)}"
