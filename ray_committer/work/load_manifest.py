"""Load one manifest: parse its bytes, and check that the job can read and write what it names.

What comes out is all that a commit needs of a manifest: its entries as paths of the store, the
directories that it wants, and what the report says of its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from ray_committer.errors import (
    ManifestError,
    ManifestReplacedError,
    MissingManifestsError,
    PathError,
    PreflightError,
    mark,
)
from ray_committer.protocol.fingerprints import fingerprints
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import ManifestRef, TaskManifest, decode_manifest, digest, stamp_of
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.passed_over import PassedOver, passed_over_by
from ray_committer.protocol.paths import JobAttempt, ancestors, parent
from ray_committer.protocol.staging import token_of
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.stores.base import Versions
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.links import refuse_links
from ray_committer.work.entries import check_directory, check_entry, entries, store_path

_NO_STATISTICS = IOStatistics()


class Where(Protocol):
    """A job and its store, in the driver or in a worker."""

    @property
    def store(self) -> GuardedStore: ...

    @property
    def job(self) -> JobAttempt: ...


class LoadedManifest(msgspec.Struct, frozen=True):
    """One manifest, read and checked. `attempt` is the directory of its task attempt; `marks` are the
    fingerprints of its destinations, in the order of its entries."""

    ref: ManifestRef
    attempt: str
    entries: list[Entry]
    directories: list[str]
    marks: bytes
    statistics: IOStatistics
    passed_over: PassedOver


def read_manifest(where: Where, path: str, size: int) -> bytes:
    """Read a manifest listed with `size` bytes; `ManifestReplacedError` if it has changed,
    `MissingManifestsError` if it is gone."""
    try:
        data = where.store.read(path)
    except FileNotFoundError as e:
        raise MissingManifestsError(f"{mark(path)}: was listed but is now gone") from e
    if len(data) != size:
        raise ManifestReplacedError(
            f"{mark(path)}: had {size} bytes when listed and has {len(data)} now: a task has saved it "
            "again",
            "run the same command",
        )
    return data


def load_manifest(
    where: Where, path: str, data: bytes, *, roots: tuple[str, ...], stamp: str
) -> LoadedManifest:
    """Load the manifest at `path` from its bytes. `roots` are the directories that the job with this
    `stamp` can write to. `ManifestError` if it is none, or not of this job; `PreflightError` or
    `PathError` if it names what the job cannot read or write."""
    manifest = decode_manifest(data, path)
    _refuse_foreign(where, manifest, path, stamp)
    try:
        directory = manifest.task_attempt_dir
        attempt = store_path(directory, where.store.spec) if directory else where.job.tasks
        loaded = _checked_entries(where, manifest, attempt, roots)
        directories = dict.fromkeys(_directories(where, manifest, loaded, roots))
        ref = _reference(where, path.rpartition("/")[2], data, manifest, attempt)
    except (PathError, PreflightError) as e:
        raise type(e)(f"{mark(path)}: {e.parts[0]}", *e.args[1:]) from e
    return LoadedManifest(
        ref=ref,
        attempt=attempt,
        entries=loaded,
        directories=list(directories),
        marks=fingerprints(entry.dest for entry in loaded),
        statistics=manifest.iostatistics or _NO_STATISTICS,
        passed_over=passed_over_by(manifest),
    )


def _refuse_foreign(where: Where, manifest: TaskManifest, path: str, stamp: str) -> None:
    if manifest.job_id is not None and manifest.job_id != where.job.job_id:
        raise ManifestError(
            f"{mark(path)}: belongs to job {manifest.job_id}, not to {where.job.job_id}", "move it away"
        )
    if (stamp_of(manifest) or UNSTAMPED) != stamp:
        raise ManifestError(
            f"{mark(path)}: was not written for this job, but by a late task of an earlier job with the "
            "same id",
            "it may have replaced a manifest of this job: abort the job and run its application "
            "again, or, if every task still has its manifest, move this file away",
        )


def _reference(
    where: Where, name: str, data: bytes, manifest: TaskManifest, attempt: str
) -> ManifestRef:
    attempt_id = manifest.task_attempt_id
    usual = where.job.task_attempt(attempt_id) if attempt_id else None
    # None if it follows from the id, which keeps memory small.
    directory = attempt if manifest.task_attempt_dir and attempt != usual else None
    return ManifestRef(
        name=name,
        size=len(data),
        digest=digest(data),
        files=len(manifest.files),
        task_attempt_id=attempt_id,
        task_attempt_directory=directory,
    )


def _checked_entries(
    where: Where, manifest: TaskManifest, attempt: str, roots: tuple[str, ...]
) -> list[Entry]:
    is_version = where.store.capabilities.versions is Versions.ETAG
    loaded = list(entries(manifest, where.store.spec, etag_is_version=is_version))
    token = token_of(manifest.task_attempt_id or "")
    for entry in loaded:
        check_entry(entry, where.job, attempt, roots, where.store, token=token)
    # `LinkedPathError` if a source is behind a link, where the file does not belong to the task.
    refuse_links(where.store, above_sources(loaded, where.job.tasks))
    if len({entry.source for entry in loaded}) < len(loaded):
        twice = Counter(entry.source for entry in loaded).most_common(1)[0][0]
        raise PreflightError(
            f"{mark(twice)}: is named twice, but can be moved only once", "run the task again"
        )
    return loaded


def above_sources(loaded: Iterable[Entry], tasks: str) -> Iterator[str]:
    """The directories of the sources, and those above them that belong to tasks, whose directory is
    `tasks`. A store without links takes none of them, so nothing is computed there."""
    parents = {parent(entry.source) for entry in loaded}
    above = {path for directory in parents for path in ancestors(directory, tasks)}
    yield from sorted(above | parents)


def _directories(
    where: Where, manifest: TaskManifest, loaded: list[Entry], roots: tuple[str, ...]
) -> Iterator[str]:
    for directory in manifest.directories or ():
        path = store_path(directory.d, where.store.spec)
        check_directory(path, where.job, roots, where.store)
        yield path
    for entry in loaded:
        yield parent(entry.dest)
