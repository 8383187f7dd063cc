"""A manifest's entries as paths of the store, checked to be where this job can read and write."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache

from ray_committer.errors import PreflightError, mark
from ray_committer.protocol.actions import LEAST_PART_BYTES, CompleteUpload, Rename
from ray_committer.protocol.manifest import TaskManifest, stamp_of
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.paths import FROZEN_BYTES, JobAttempt, is_inside, join, parent
from ray_committer.protocol.recovery import Expectation
from ray_committer.protocol.staging import is_staged, token_in
from ray_committer.protocol.table_paths import is_in_log
from ray_committer.protocol.uri import Location, format_uri, parse_uri, unquote_path
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import is_on_store

_PLAIN = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")  # nothing that is quoted, no "." or ".."


STAYS = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS, errno.EXDEV, errno.ETXTBSY, errno.ESTALE)
"""The errors of one old file that cannot be removed or replaced; all others are the store's failures."""


class OldFileStaysError(Exception):
    """An old file was seen in its place, and the store says why its new namesake cannot take it."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror or str(cause))


def entries(
    manifest: TaskManifest, spec: StoreSpec, *, etag_is_version: bool = False
) -> Iterator[Entry]:
    """The entries of `manifest`; `PreflightError` for an entry on another store."""
    stamp, made_by = stamp_of(manifest), (manifest.task_attempt_id, manifest.job_id)
    for file in manifest.files:
        dest = store_path(file.d, spec)
        if file.u is not None:
            yield CompleteUpload(dest, file.u, file.p or (), file.e, stamp, *made_by, file.z)
        else:
            version = file.e if etag_is_version else None
            yield Rename(store_path(file.s, spec), dest, Expectation(file.z, file.e, file.m), version)


def store_path(uri: str, spec: StoreSpec) -> str:
    """The path of `uri` on the store; `PreflightError` if it is on another store."""
    directory, slash, name = uri.rpartition("/")
    is_name = _PLAIN.fullmatch(name) is not None
    if not is_name:
        name = unquote_path(name)
        is_name = name not in ("", ".", "..") and "/" not in name and "\0" not in name
    if not is_name or not directory:
        return _own_path(parse_uri(uri), spec, uri)
    return _own_directory(directory + slash, spec.scheme, spec.authority) + name


def uri_of(spec: StoreSpec, path: str) -> str:
    """The URI of a path of the store, as manifests have it."""
    return format_uri(Location(spec.scheme, spec.authority, path))


def check_entry(
    entry: Entry,
    job: JobAttempt,
    attempt: str,
    roots: tuple[str, ...],
    store: StoreOperations,
    *,
    token: str | None,
) -> None:
    """Refuse an entry neither in its task attempt's directory nor staged with its `token`, outside
    `roots`, with a name that the store cannot have, or of another kind than the store's."""
    if isinstance(entry, CompleteUpload):
        _check_upload(entry, job, roots, store)
        return
    place, _, name = entry.source.rpartition("/")
    if _is_staged(place, job.tasks):
        if token is None or token_in(name) != token:
            raise PreflightError(
                f"{mark(entry.source)}: is not named for the task attempt whose manifest names it",
                "run the task again",
            )
        attempt = job.tasks
    _check_rename(entry, job, attempt, roots, store)


def is_of_attempts(entry: Entry, tasks: str, ids: AbstractSet[str], tokens: AbstractSet[str]) -> bool:
    """Whether `check_entry` allows an entry for a task attempt with one of these `ids` and `tokens`."""
    if isinstance(entry, CompleteUpload):
        return entry.task in ids
    place, _, name = entry.source.rpartition("/")
    if _is_staged(place, tasks):
        return token_in(name) in tokens
    return entry.source[len(tasks) + 1 :].partition("/")[0] in ids


def check_packed(entry: Entry, job: JobAttempt, roots: tuple[str, ...], store: StoreOperations) -> None:
    """`check_entry` of an entry whose source can be of any task of the job."""
    if isinstance(entry, CompleteUpload):
        _check_upload(entry, job, roots, store)
    else:
        _check_rename(entry, job, job.tasks, roots, store)


def _check_rename(
    entry: Rename, job: JobAttempt, attempt: str, roots: tuple[str, ...], store: StoreOperations
) -> None:
    if not store.has(StoreOperations.rename):
        raise PreflightError(
            f"{mark(entry.source)}: is a file to be renamed, and S3 has no rename",
            "write it as an upload: with attempt.open(), a writer of this package, or a magic committer",
        )
    _check_source_length(entry.source, store)
    directory, _, name = entry.dest.rpartition("/")
    # Names that a commit needs begin with an underline, and are in the destination itself.
    is_own = name[:1] == "_" and (directory or "/") == job.destination
    is_any = not is_own and not store.capabilities.refused_characters
    if is_any and _are_usual(parent(entry.source), directory or "/", job, attempt, roots):
        _check_length(entry.dest, store)
        return
    if not is_inside(entry.source, job.tasks):
        raise PreflightError(
            f"{mark(entry.source)}: is not below {mark(job.tasks)}, so it is not this job's to move"
        )
    if not is_inside(entry.source, attempt):
        raise PreflightError(
            f"{mark(entry.source)}: is not below its task attempt's directory {mark(attempt)}"
        )
    check_dest(entry.dest, job, roots, store)


def _check_upload(
    entry: CompleteUpload, job: JobAttempt, roots: tuple[str, ...], store: StoreOperations
) -> None:
    if not store.has(StoreOperations.publish):
        raise PreflightError(f"{mark(entry.dest)}: is an upload, which this store cannot complete")
    if (len(entry.parts) - 1) * LEAST_PART_BYTES > entry.size:
        raise PreflightError(
            f"{mark(entry.dest)}: has {len(entry.parts)} parts in {entry.size} bytes, "
            f"but all parts except the last need {LEAST_PART_BYTES} bytes",
            "upload larger parts",
        )
    check_dest(entry.dest, job, roots, store)


def check_dest(dest: str, job: JobAttempt, roots: tuple[str, ...], store: StoreOperations) -> None:
    """Refuse a place outside `roots`, a name that the commit needs, or that the store cannot have."""
    if not any(is_inside(dest, root) for root in roots):
        raise PreflightError(
            f"{mark(dest)}: is outside the destination {mark(job.destination)}",
            "if that is intended, name its directory as an allowed root",
        )
    if _is_reserved(dest, job):
        raise PreflightError(f"{mark(dest)}: is a name that the commit itself needs")
    if refused := set(store.capabilities.refused_characters).intersection(dest):
        raise PreflightError(
            f"{dest!r}: has {', '.join(map(repr, sorted(refused)))}, which the store refuses in a name"
        )
    _check_length(dest, store)


@lru_cache(maxsize=8192)
def _are_usual(source: str, dest: str, job: JobAttempt, attempt: str, roots: tuple[str, ...]) -> bool:
    """Whether every file can be moved from one directory to the other, without a check of each."""
    return (
        all(
            source == root_of_task or is_inside(source, root_of_task)
            for root_of_task in (job.tasks, attempt)
        )
        and any(dest == root or is_inside(dest, root) for root in roots)
        and not _is_reserved(dest, job)
    )


_is_staged = lru_cache(maxsize=8192)(is_staged)


def check_directory(path: str, job: JobAttempt, roots: tuple[str, ...], store: StoreOperations) -> None:
    """Refuse a directory outside `roots`, inside ``_temporary`` or a table's log, in the place of
    ``_SUCCESS``, or with a name that the store cannot have."""
    inside = any(path == root or is_inside(path, root) for root in roots)
    if not inside or _is_reserved(path, job):
        raise PreflightError(
            f"{mark(path)}: is not a directory that a job writing to {mark(job.destination)} can make"
        )
    _check_length(path, store)


def _is_reserved(path: str, job: JobAttempt) -> bool:
    """Whether `path` is, or is below, a name that a commit needs, or is in the log of a table."""
    if is_in_log(path):
        return True
    if not path.startswith(join(job.destination, "_")):
        return False
    return any(
        path == reserved or is_inside(path, reserved) for reserved in (job.temporary, job.success)
    )


def _check_length(path: str, store: StoreOperations) -> None:
    limits = store.capabilities
    # Four bytes are the most that a character has in UTF-8: most paths are short enough without being
    # encoded.
    if len(path) * 4 <= limits.max_name_length:
        return
    directory, _, name = path.rpartition("/")
    longest = max(len(name.encode()), _longest_name(directory))
    if len(path.encode()) > limits.max_path_length or longest > limits.max_name_length:
        raise PreflightError(
            f"{mark(path)}: is longer than the store allows ({limits.max_path_length} bytes, a name "
            f"{limits.max_name_length})",
            "use shorter partition values or file names",
        )


def longest_source(store: StoreOperations) -> int:
    """The bytes that the path of a task's file may have: it gets longer where the files of tasks get
    another directory."""
    more = FROZEN_BYTES if store.has(StoreOperations.move_whole) else 0
    return store.capabilities.max_path_length - more


def _check_source_length(path: str, store: StoreOperations) -> None:
    longest = longest_source(store)
    if len(path) * 4 > longest and len(path.encode()) > longest:
        raise PreflightError(
            f"{mark(path)}: is longer than {longest} bytes: the store allows "
            f"{store.capabilities.max_path_length}, of which a commit needs the rest",
            "use shorter partition values or file names",
        )


@lru_cache(maxsize=8192)
def _longest_name(directory: str) -> int:
    return max(map(len, directory.encode().split(b"/")))


@lru_cache(maxsize=8192)
def _own_directory(uri: str, scheme: str, authority: str) -> str:
    """The path of a directory, with a slash at its end."""
    return f"{_own_path(parse_uri(uri), StoreSpec(scheme, authority), uri).rstrip('/')}/"


def _own_path(location: Location, spec: StoreSpec, uri: str) -> str:
    if location.scheme and not is_on_store(location, spec.scheme, spec.authority):
        raise PreflightError(
            without_password(
                f"{uri}: is on another store than the destination ({spec.scheme}://{spec.authority}), "
                f"and a rename cannot cross stores"
            )
        )
    return location.path
