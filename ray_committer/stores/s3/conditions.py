"""Check, before the first state of a job is written, that a server does what a commit relies on.

Some servers of S3's API ignore conditions: they answer as if they had been met, so that two processes
decide one job, or a file of another program is replaced. Each request here also needs a right that the
commit needs, so a missing one is named before any task has run.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from ray_committer.errors import StoreRefusedError
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.state import new_nonce
from ray_committer.stores.s3.bucket import S3Bucket

_OTHER = "0" * 32
"""An etag that no object has."""
_WRITES = "writes an object although a condition of the request does not hold"
_REFUSED = (errno.ENOTSUP, errno.EPROTO)
_ADVICE = "use a server that has conditional writes, such as Amazon S3, or write to another store"


def check_conditions(bucket: S3Bucket, name: str, *, binds_deletes: bool) -> None:
    """Try each conditional request on an object beside `name`, which is deleted at the end; with
    `binds_deletes`, deletions too. `StoreRefusedError` if the server ignores a condition."""
    probe = f"{name}.probe-{new_nonce()}.json"  # a clean-up of the job deletes it, too
    try:
        _check_writes(bucket, probe)
        _check_uploads(bucket, probe)
        if binds_deletes:
            _check_deletes(bucket, probe)
    except OSError as e:
        if e.errno not in _REFUSED:
            raise
        raise StoreRefusedError(
            f"s3://{bucket.name}: the server cannot be used: {e.strerror}", _ADVICE
        ) from e
    finally:
        with suppress(FileNotFoundError):
            bucket.delete(probe)


def _check_writes(bucket: S3Bucket, probe: str) -> None:
    with suppress(FileExistsError, FileNotFoundError):  # some releases of MinIO wrote it
        bucket.put(probe, b"other", old=_OTHER)
        raise _ignored(bucket, _WRITES)
    etag = bucket.put(probe, b"probe", new=True)
    for condition in ({"new": True}, {"old": _OTHER}):
        try:
            bucket.put(probe, b"other", **condition)
        except (FileExistsError, FileNotFoundError):
            continue
        raise _ignored(bucket, _WRITES)
    # A condition that holds: some servers refuse every conditional write.
    bucket.put(probe, b"probe", old=etag)


def _check_uploads(bucket: S3Bucket, probe: str) -> None:
    try:
        upload = bucket.begin(probe, None)
    except OSError as e:
        if e.errno != errno.ENOTSUP:
            raise
        raise StoreRefusedError(
            f"s3://{bucket.name}: the server has no multipart uploads: {e.strerror}",
            "use a server that has them, such as Amazon S3, or write to another store",
        ) from e
    try:
        bucket.has_upload(probe, upload)
        bucket.upload_page(probe, None)
        part = bucket.put_part(probe, upload, 1, b"")
        if bucket.complete(CompleteUpload(f"/{probe}", upload, (part,))) is Answer.DONE:
            raise _ignored(bucket, "completes an upload over an object although it must not replace one")
    finally:
        # Also if the server has completed it: a pending upload costs, and nobody would look for it.
        bucket.abort(probe, upload)


def _check_deletes(bucket: S3Bucket, probe: str) -> None:
    with suppress(FileExistsError):
        bucket.delete(probe, _OTHER)
        raise StoreRefusedError(
            f"s3://{bucket.name}: the server deletes an object although a condition of the request does "
            f"not hold",
            "give the storage option conditional_deletes=false: then each old file is looked at before "
            "it is deleted, and no other program must write to the data that a job replaces",
        )


def _ignored(bucket: S3Bucket, what: str) -> StoreRefusedError:
    return StoreRefusedError(f"s3://{bucket.name}: the server {what}", _ADVICE)
