"""What the tasks of Hadoop's S3A committers leave: pendingsets, read as task manifests.

A task that writes below a magic path uploads its files and completes none. A JSON file for each upload
(``.pending``) says what it is. When the task commits, they become one file, ``$taskId.pendingset``, and
the job's committer completes what these name. So a pendingset is a task manifest of uploads.

Hadoop's reader trusts what it reads. This one refuses an upload that this job must not complete, and
names that a listing of S3 cannot show. It completes `destinationKey`; the `uri` of an upload is the
magic path at which its task wrote. Source: Hadoop ``PendingSet``, ``SinglePendingCommit``; versions 3
and 2, which Hadoop 3.3.1 writes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from ray_committer.errors import ManifestError, mark
from ray_committer.protocol.actions import predict_etag
from ray_committer.protocol.magic_paths import MagicJob, is_magic
from ray_committer.protocol.manifest import MAX_PARTS, FileEntry, Long, TaskManifest
from ray_committer.protocol.uri import Location, format_uri

SET_VERSION = 3
UPLOAD_VERSION = 2
LONGEST_KEY = 1024
"""Bytes of UTF-8 in the key of an object."""
SMALLEST_PART = 5 * 1024 * 1024
"""Bytes of each part of an upload but the last one."""

_NEWER = "commit it with the release of Hadoop that wrote it"
_AGAIN = "run the task again"
_TOKEN = re.compile(r"[!#-;=?-~]{1,1024}")
"""One word of visible ASCII, as upload ids and etags are, without quotes and angle brackets."""
_NO_XML = "\ufffe\uffff"
"""What no listing can show, beside control characters and halves of a surrogate pair."""


class _PartEtag(msgspec.Struct):
    """The etag of a part as releases after Hadoop 3.4.1 write it; 3.3 writes only the text."""

    etag: str
    checksum: str | None = None


class _Upload(msgspec.Struct, kw_only=True, rename="camel"):
    version: int
    bucket: str
    destination_key: str
    upload_id: str
    length: Long
    etags: list[str | _PartEtag]
    task_id: str | None = None


class _PendingSet(msgspec.Struct, kw_only=True, rename="camel"):
    version: int
    job_id: str | None = None
    commits: list[_Upload]


class _Version(msgspec.Struct):
    version: int


_Decoded = TypeVar("_Decoded")
_SET = msgspec.json.Decoder(_PendingSet, strict=False)
_UPLOAD = msgspec.json.Decoder(_Upload, strict=False)
_VERSION = msgspec.json.Decoder(_Version, strict=False)
"""Made here, because msgspec crashes if several threads decode a type for the first time."""


def decode_pendingset(data: bytes, path: str, job: MagicJob) -> TaskManifest:
    """Parse and check the pendingset of a task; `ManifestError` names `path`, the field and what to do.
    `path` is where the file is on the store, which says which task and job attempt it is of."""
    pendingset = _decode(data, path, _SET, SET_VERSION)
    _check_version(pendingset.version, SET_VERSION, f"{mark(path)}: ")
    if pendingset.job_id and pendingset.job_id != job.uuid:
        raise ManifestError(
            f"{mark(path)}: jobId: is {pendingset.job_id!r}, but the job is {job.uuid}",
            "remove the file",
        )
    place = job.place_of(path)
    task_id = place.task_id if place else None
    _check_attempts(pendingset.commits, path, task_id)
    files = [_entry(upload, path, f"commits[{i}].", job) for i, upload in enumerate(pendingset.commits)]
    _check_unique((upload.destination_key for upload in pendingset.commits), path, "destinationKey")
    _check_unique((upload.upload_id for upload in pendingset.commits), path, "uploadId")
    return TaskManifest(
        job_id=job.uuid,
        job_attempt_number=place.attempt if place else 0,
        task_id=task_id,
        task_attempt_id=next((upload.task_id for upload in pendingset.commits if upload.task_id), None),
        files=files,
    )


def decode_pending(data: bytes, path: str, job: MagicJob) -> FileEntry:
    """Parse and check the file ``.pending`` of one upload; `ManifestError` as for a pendingset."""
    return _entry(_decode(data, path, _UPLOAD, UPLOAD_VERSION), path, "", job)


def _decode(data: bytes, path: str, decoder: msgspec.json.Decoder[_Decoded], known: int) -> _Decoded:
    """Parse one file. What is wrong with the fields of another version is that it is another one."""
    if not data:
        raise ManifestError(f"{mark(path)}: is empty, not a pendingset", _AGAIN)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as e:
        # A file of another version fails at some field first. The version is the better answer, if it
        # can be read.
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            version = _VERSION.decode(data).version
            _check_version(version, known, f"{mark(path)}: ")
        raise ManifestError(f"{mark(path)}: cannot be committed: {e}") from e
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ManifestError(f"{mark(path)}: is truncated or not JSON ({e})", _AGAIN) from e


def _check_version(version: int, known: int, where: str) -> None:
    if version != known:
        raise ManifestError(f"{where}version: is {version}, but only {known} is supported", _NEWER)


def _entry(upload: _Upload, path: str, field: str, job: MagicJob) -> FileEntry:
    where = f"{mark(path)}: {field}"
    _check_version(upload.version, UPLOAD_VERSION, where)
    # Hadoop completes whatever the file says. A file that was copied here could end uploads of another
    # job.
    if upload.bucket != job.bucket:
        raise ManifestError(
            f"{where}bucket: is {upload.bucket!r}, but the job writes to {job.bucket}", "remove the file"
        )
    _check_key(upload.destination_key, f"{where}destinationKey", job)
    if not _TOKEN.fullmatch(upload.upload_id):
        raise ManifestError(f"{where}uploadId: is {upload.upload_id!r}, not the id of an upload", _AGAIN)
    parts = tuple(_part_etags(upload, where))
    _check_length(upload.length, len(parts), f"{where}length")
    return FileEntry(
        d=format_uri(Location("s3", job.bucket, f"/{upload.destination_key}")),
        z=upload.length,
        e=predict_etag(parts),
        u=upload.upload_id,
        p=parts,
    )


def _check_key(key: str, where: str, job: MagicJob) -> None:
    """Refuse a key that is not a file's below the destination, or that no listing shows as it is."""
    wrong = _wrong_name(key)
    if wrong is None and not key.startswith(job.prefix):
        wrong = f"is not below the destination {job.prefix!r}"
    # The cheap test of the whole key first: a job can have a million of them.
    if wrong is None and "__magic" in key and is_magic(key.removeprefix(job.prefix)):
        wrong = "is a path of the committer itself"
    if wrong is not None:
        raise ManifestError(f"{where}: {key[:LONGEST_KEY]!r} {wrong}", "abort the job, and run it again")


def _wrong_name(key: str) -> str | None:
    """What is wrong with `key` as the name of a file; None if nothing is."""
    if any(part in ("", ".", "..") for part in key.split("/")):
        return "has an empty element, '.' or '..'"
    if not (key.isascii() and key.isprintable()) and any(map(_is_no_text, key)):
        return "has a control character, or what is no character of UTF-8"
    return f"is longer than {LONGEST_KEY} bytes" if len(key.encode()) > LONGEST_KEY else None


def _is_no_text(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or character in _NO_XML


def _part_etags(upload: _Upload, where: str) -> Iterator[str]:
    """The etags of the parts, in order and without quotes."""
    if not 1 <= len(upload.etags) <= MAX_PARTS:
        raise ManifestError(
            f"{where}etags: names {len(upload.etags)} parts, but an upload has 1 to {MAX_PARTS}", _AGAIN
        )
    for number, part in enumerate(upload.etags):
        if isinstance(part, _PartEtag) and part.checksum is not None:
            raise ManifestError(f"{where}etags[{number}].checksum: is not supported", _NEWER)
        etag = part.etag if isinstance(part, _PartEtag) else part
        bare = etag[1:-1] if len(etag) > 1 and etag[0] == etag[-1] == '"' else etag
        if not _TOKEN.fullmatch(bare):
            raise ManifestError(f"{where}etags[{number}]: is {etag!r}, not the etag of a part", _AGAIN)
        yield bare


def _check_length(length: int, parts: int, where: str) -> None:
    if length < 0:
        raise ManifestError(f"{where}: is negative: {length}", _AGAIN)
    if length < (parts - 1) * SMALLEST_PART:
        raise ManifestError(
            f"{where}: is {length} bytes in {parts} parts, but each part except the last must have "
            f"{SMALLEST_PART}",
            "set fs.s3a.multipart.size to 5M or more, and run the task again",
        )


def _check_attempts(uploads: Iterable[_Upload], path: str, task_id: str | None) -> None:
    """Refuse the uploads of two task attempts in one file, and uploads of another task."""
    first = None
    for index, upload in enumerate(uploads):
        attempt = upload.task_id
        first = first or attempt
        if not attempt:
            continue
        is_of_task = task_id is None or _task_of(attempt) in (None, task_id)
        if attempt != first or not is_of_task:
            raise ManifestError(
                f"{mark(path)}: commits[{index}].taskId: is {attempt!r}, of another task attempt", _AGAIN
            )


def _task_of(attempt: str) -> str | None:
    """The task of ``attempt_$tracker_$job_m_$task_$number``; None for any other id."""
    if not attempt.startswith("attempt_"):
        return None
    return f"task_{attempt.removeprefix('attempt_').rpartition('_')[0]}"


def _check_unique(values: Iterable[str], path: str, field: str) -> None:
    twice = [value for value, times in Counter(values).items() if times > 1]
    if twice:
        raise ManifestError(f"{mark(path)}: {field}: {twice[0]!r} is named by two uploads", _AGAIN)
