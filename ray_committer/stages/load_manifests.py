"""Load the task manifests: workers parse and check them, the driver keeps a few numbers of each.

Directories go to the coordinator, fingerprints of the destinations to the preflight; entries stay
where they were read. Source: Hadoop LoadManifestsStage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from ray_committer.directories import Directories
from ray_committer.errors import (
    ManifestError,
    MissingManifestsError,
    PathError,
    PreflightError,
)
from ray_committer.protocol.fingerprints import fingerprints
from ray_committer.protocol.iostatistics import IOStatistics, aggregate
from ray_committer.protocol.manifest import TaskManifest, digest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, join, parent
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import Entry, check_directory, check_entry, entries, store_path
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus

MANIFESTS_A_TASK = 200


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """All manifests of a job: O(tasks) values, and eight bytes a file in `fingerprints`."""

    manifests: tuple[ManifestRef, ...]
    fingerprints: tuple[bytes, ...]
    statistics: IOStatistics

    @property
    def files(self) -> int:
        return sum(manifest.files for manifest in self.manifests)


@dataclass(frozen=True, slots=True)
class Listed:
    """A manifest as the listing shows it."""

    name: str
    size: int


def load_manifests(
    context: JobContext, record: CommitRecord | None, roots: tuple[str, ...]
) -> LoadedManifests:
    """Load what is listed or, once a commit record exists, exactly what that names.

    `roots` are the directories into which the job may write. `ManifestError` names a bad manifest.
    """
    wanted: Sequence[Listed | ManifestRef] = record.manifests if record else list_manifests(context)
    size = max(1, min(MANIFESTS_A_TASK, -(-len(wanted) // (4 * context.executor.width))))
    work = partial(_load_batch, directories=context.executor.directories, roots=roots)
    found: dict[str, ManifestRef] = {}
    marks: list[bytes] = []
    statistics = IOStatistics()
    batches = context.until_cancelled(_batches(wanted, size))
    for refs, batch_marks, batch_statistics in context.executor.run_tasks(work, batches):
        found.update((ref.name, ref) for ref in refs)
        marks.append(batch_marks)
        statistics = aggregate(statistics, batch_statistics)
    context.check_cancelled()
    if found.keys() != {item.name for item in wanted}:
        raise MissingManifestsError(
            f"{context.job.manifests}: {len(wanted)} manifests are listed, {len(found)} were loaded"
        )
    return LoadedManifests(tuple(found[item.name] for item in wanted), tuple(marks), statistics)


def list_manifests(context: JobContext) -> list[Listed]:
    """List the job's manifests, by name; each must be a file with content."""
    try:
        statuses = context.store.list_status(context.job.manifests)
    except FileNotFoundError as e:
        raise MissingManifestsError(
            f"{context.job.manifests}: is gone; another job's clean-up may have deleted all of "
            f"{context.job.temporary}"
        ) from e
    manifests = [status for status in statuses if status.name.endswith(MANIFEST_SUFFIX)]
    for status in manifests:
        _check_listed(status)
    return sorted((Listed(status.name, status.size) for status in manifests), key=_name)


def _name(listed: Listed) -> str:
    return listed.name


def _check_listed(status: FileStatus) -> None:
    if status.is_directory or status.size == 0:
        what = "a directory" if status.is_directory else "empty"
        raise ManifestError(f"{status.path}: is {what}, not a task manifest; run the task again")


def _batches(
    items: Sequence[Listed | ManifestRef], size: int
) -> Iterator[tuple[Listed | ManifestRef, ...]]:
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch


def _load_batch(
    worker: Worker,
    batch: tuple[Listed | ManifestRef, ...],
    *,
    directories: Directories,
    roots: tuple[str, ...],
) -> tuple[list[ManifestRef], bytes, IOStatistics]:
    """Work: parse and check some manifests; idempotent."""
    refs, marks, statistics = [], [], IOStatistics()
    found: dict[str, None] = {}
    for item in batch:
        ref, manifest = _read(worker, item)
        try:
            loaded = _checked_entries(worker, manifest, roots)
            found.update(dict.fromkeys(_directories(worker, manifest, loaded, roots)))
        except (PathError, PreflightError) as e:
            raise type(e)(f"{join(worker.job.manifests, item.name)}: {e}") from e
        refs.append(ref)
        marks.append(fingerprints(entry.dest for entry in loaded))
        statistics = aggregate(statistics, manifest.iostatistics or IOStatistics())
    directories.collect([path for path in found if path != worker.job.destination])
    return refs, b"".join(marks), statistics


def _read(worker: Worker, item: Listed | ManifestRef) -> tuple[ManifestRef, TaskManifest]:
    path = join(worker.job.manifests, item.name)
    if isinstance(item, ManifestRef):
        return item, worker.recorded_manifest(item)
    try:
        data, manifest = worker.read_manifest(item.name, item.size)
    except FileNotFoundError as e:
        raise MissingManifestsError(f"{path}: was listed and is gone now") from e
    if manifest.job_id is not None and manifest.job_id != worker.job.job_id:
        raise ManifestError(
            f"{path}: is of job {manifest.job_id}, not of {worker.job.job_id}; move it away"
        )
    return _reference(worker, item, data, manifest), manifest


def _reference(worker: Worker, item: Listed, data: bytes, manifest: TaskManifest) -> ManifestRef:
    directory = manifest.task_attempt_dir
    return ManifestRef(
        name=item.name,
        size=item.size,
        digest=digest(data),
        files=len(manifest.files),
        bytes=sum(file.z for file in manifest.files),
        task_attempt_id=manifest.task_attempt_id,
        task_attempt_directory=store_path(directory, worker.store.spec) if directory else None,
    )


def _checked_entries(worker: Worker, manifest: TaskManifest, roots: tuple[str, ...]) -> list[Entry]:
    loaded = list(entries(manifest, worker.store.spec))
    for entry in loaded:
        check_entry(entry, worker.job, roots, worker.store)
    return loaded


def _directories(
    worker: Worker, manifest: TaskManifest, loaded: list[Entry], roots: tuple[str, ...]
) -> Iterator[str]:
    for directory in manifest.directories or ():
        path = store_path(directory.d, worker.store.spec)
        check_directory(path, worker.job, roots)
        yield path
    for entry in loaded:
        yield parent(entry.dest)
