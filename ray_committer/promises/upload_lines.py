"""Doctor checks of a bucket whose files are uploads: rights, conditions, and the bucket's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import md5

from ray_committer.promises.lines import Line, Verdict
from ray_committer.promises.scratch import Scratch
from ray_committer.protocol.actions import CompleteUpload
from ray_committer.protocol.paths import join
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.uploads import BucketSettings, pending_uploads

JOB_DAYS = 7
"""How old a job can be when it is committed: so long ``vacuum`` waits, too."""
SKEW_SECONDS = 60.0

_NO_UPLOAD = "0" * 32
_MD5 = md5(b"1", usedforsecurity=False).hexdigest()
_RULE = (
    '{{"ID": "uploads", "Status": "Enabled", "Filter": {{"Prefix": "{prefix}"}}, '
    '"AbortIncompleteMultipartUpload": {{"DaysAfterInitiation": 14}}}}'
)

Check = Callable[[], Line]


def upload_lines(store: StoreOperations, scratch: Scratch, destination: str) -> dict[str, Check]:
    """The checks by name; each is made in a scratch directory that exists."""
    checks: dict[str, Check] = {
        "conditions": lambda: _conditions(scratch),
        "abort rule": lambda: _abort_rule(store, destination),
    }
    settings = store.settings()
    if settings is not None:
        checks |= {
            "encryption": lambda: _encryption(scratch, settings),
            "versions": lambda: _versions(settings),
            "region": lambda: Line("region", Verdict.OK, settings.place()),
            "clock": lambda: _clock(settings),
        }
    return checks


def rights(store: StoreOperations, path: str) -> Line:
    """Try each request that a commit makes on names below `path`; report all rights that are missing."""
    missing = [f"{right} ({what})" for right, what in _denied(store, path)]
    if missing:
        advice = "grant these rights on the bucket, and below the destination"
        return Line("rights", Verdict.FAILED, f"missing: {', '.join(missing)}", advice)
    return Line("rights", Verdict.OK, "list, read, write, upload, complete, abort and delete")


def _denied(store: StoreOperations, path: str) -> Iterator[tuple[str, str]]:
    """The rights that are missing. A right shows also on an upload, or a version, that there is not."""
    name = join(path, "rights")
    begun: list[str] = []

    def begin() -> None:
        begun.append(store.begin_upload(name, None))

    def upload() -> str:
        return begun[0] if begun else _NO_UPLOAD

    def complete() -> None:
        store.publish(CompleteUpload(name, upload(), (_MD5,)))

    attempts: list[tuple[str, str, Callable[[], object]]] = [
        ("ListBucket", "list objects", lambda: store.list_files(path)),
        ("PutObject", "write", lambda: store.write(name, b"1")),
        ("GetObject", "read", lambda: store.read(name)),
        ("PutObject", "begin an upload", begin),
        ("PutObject", "upload a part", lambda: store.put_part(name, upload(), 1, b"1")),
        ("ListMultipartUploadParts", "look at an upload", lambda: store.is_pending(name, upload())),
        ("ListBucketMultipartUploads", "list uploads", lambda: next(pending_uploads(store, path), None)),
        ("PutObject", "complete an upload", complete),
        ("AbortMultipartUpload", "abort an upload", lambda: store.abort_upload(name, upload())),
        ("DeleteObject", "delete", lambda: store.delete_version(name, _NO_UPLOAD)),
    ]
    for right, what, attempt in attempts:
        try:
            with suppress(FileNotFoundError, FileExistsError):
                attempt()
        except PermissionError:
            yield f"s3:{right}", what


def _conditions(scratch: Scratch) -> Line:
    scratch.store.check_conditions(join(scratch.path, "conditions"))
    return Line("conditions", Verdict.OK, "obeyed when an object is written, completed and deleted")


def _abort_rule(store: StoreOperations, destination: str) -> Line:
    """Whether a rule ends uploads that nobody completes, and no upload of a job at work."""
    days = store.abort_days(destination)
    if days is None:
        rule = _RULE.format(prefix=f"{destination[1:]}/" if destination != "/" else "")
        return Line(
            "abort rule",
            Verdict.WARNING,
            "no rule of the bucket aborts uploads that nobody completes, and their parts are billed for "
            "ever",
            f"run ray-committer vacuum now and then, or add this to the rules of the bucket: {rule}",
        )
    told = f"a rule of the bucket aborts uploads {days} days after they began"
    if days < JOB_DAYS:
        advice = f"give the rule {JOB_DAYS} days, or more if a job can wait longer for its commit"
        return Line("abort rule", Verdict.WARNING, f"{told}, also those of jobs at work", advice)
    return Line("abort rule", Verdict.OK, told)


def _encryption(scratch: Scratch, settings: BucketSettings) -> Line:
    """Whether the etag of a file is known before it is completed."""
    kind = _setting(settings.encryption) or "none by default"
    sandbox = scratch.directory("encryption")
    store, path = sandbox.store, sandbox.at("a")
    upload = store.begin_upload(path, None)
    try:
        is_md5 = store.put_part(path, upload, 1, b"1") == _MD5
    finally:
        store.abort_upload(path, upload)
    if is_md5:
        what = (
            "the etags of parts are MD5 sums, so the etag of each file is known before it is completed"
        )
        return Line("encryption", Verdict.OK, f"{kind}: {what}")
    what = "the etags of parts are no MD5 sums, so a file is proved by the stamp of its job"
    advice = "after a lost answer, a job that Hadoop's S3A committer left has no such proof"
    return Line("encryption", Verdict.NOTE, f"{kind}: {what}", advice)


def _versions(settings: BucketSettings) -> Line:
    """Whether deleted objects are kept."""
    versioning, is_locked = settings.versioning(), settings.locks_objects()
    if is_locked:
        what = "objects can be locked, and all versions of deleted objects are kept and billed"
        advice = "this is not tried: without a default retention, a commit should work"
        return Line("versions", Verdict.WARNING, what, advice)
    if versioning == "Enabled":
        what = "a version of each object that is deleted or replaced is kept and billed"
        return Line("versions", Verdict.WARNING, what, "add a rule that expires old versions")
    return Line("versions", Verdict.OK, "no versions of deleted objects are kept")


def _clock(settings: BucketSettings) -> Line:
    seconds = settings.clock_seconds()
    if seconds is None:
        return Line("clock", Verdict.NOTE, "the store shows no time")
    measured = f"{abs(seconds):.0f} s from that of the store"
    if abs(seconds) > SKEW_SECONDS:
        advice = "set the clock: from 15 minutes on, Amazon S3 refuses all requests"
        return Line("clock", Verdict.WARNING, measured, advice)
    return Line("clock", Verdict.OK, measured)


def _setting(read: Callable[[], str | None]) -> str | None:
    try:
        return read()
    except PermissionError:
        return "not known, because it may not be read"
