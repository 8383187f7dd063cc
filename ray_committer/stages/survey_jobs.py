"""See how far the jobs below a destination are: by a few requests each, or by every manifest.

Cheap is two listings and one read a job attempt: a commit record knows its files and bytes; without one
they are estimated from the sizes of all manifests and the content of the largest. Which files a commit
has moved so far no file says: that takes a read and a listing a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import RayCommitterError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt, join
from ray_committer.protocol.record import CommitRecord, decode_record
from ray_committer.stages.crew import Crew
from ray_committer.stages.entries import entries, store_path
from ray_committer.stages.find_job import AttemptState, attempt_state
from ray_committer.stores.base import FileStatus, StoreOperations

RUNNING, RECORDED, COMMITTED, ABORTING = "running", "recorded", "committed", "aborting"


@dataclass(frozen=True, slots=True)
class Survey:
    """One job attempt; see `ray_committer.JobSummary`."""

    state: str
    manifests: int = 0
    files: int | None = None
    bytes: int | None = None
    is_estimate: bool = False
    left: int | None = None
    newest_milliseconds: int | None = None
    problem: str | None = None


def survey_job(store: StoreOperations, job: JobAttempt) -> Survey:
    """Look at a job attempt by at most two listings and one read; a bad file is a `problem`."""
    listed = _list(store, job.directory)
    state = attempt_state(listed)
    manifests = _manifests(store, job) if state.has_manifests else []
    times = [one.modified_milliseconds for one in (*listed, *manifests)]
    newest = max((time for time in times if time is not None), default=None)
    try:
        found = _by_record(store, job, state) if state.is_decided else _by_largest(store, manifests)
    except FileNotFoundError:  # the job went on meanwhile
        found = Survey(_undecided(state))
    except RayCommitterError as e:
        found = Survey(_undecided(state), manifests=len(manifests), problem=str(e))
    return replace(found, newest_milliseconds=newest)


def survey_exactly(store: StoreOperations, job: JobAttempt, *, threads: int) -> Survey:
    """Read every manifest, and of a job whose commit has begun list what is not moved yet."""
    found = survey_job(store, job)
    if found.problem is not None or found.state in (COMMITTED, ABORTING):
        return found
    crew = Crew(threads)
    try:
        names = _names(store, job, found)
        count = partial(_count, store, job, looks_for_sources=found.state == RECORDED)
        counted = list(crew.map(count, names))
    except FileNotFoundError:
        return found
    except RayCommitterError as e:
        return replace(found, problem=str(e))
    finally:
        crew.close()
    return replace(
        found,
        files=sum(files for files, _, _ in counted),
        bytes=sum(size for _, size, _ in counted),
        is_estimate=False,
        left=sum(left for _, _, left in counted) if found.state == RECORDED else None,
    )


def _undecided(state: AttemptState) -> str:
    return COMMITTED if state.has_commit_point else RECORDED if state.has_record else RUNNING


def _list(store: StoreOperations, directory: str) -> list[FileStatus]:
    try:
        return store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _manifests(store: StoreOperations, job: JobAttempt) -> list[FileStatus]:
    listed = _list(store, job.manifests)
    return [one for one in listed if one.name.endswith(MANIFEST_SUFFIX) and not one.is_directory]


def _read_record(store: StoreOperations, job: JobAttempt, *, committed: bool) -> CommitRecord:
    path = job.commit_point if committed else job.commit_record
    return decode_record(store.read(path), path)


def _by_record(store: StoreOperations, job: JobAttempt, state: AttemptState) -> Survey:
    record = _read_record(store, job, committed=state.has_commit_point)
    return Survey(
        ABORTING if record.aborted else _undecided(state),
        manifests=len(record.manifests),
        files=record.files,
        bytes=record.bytes,
        left=0 if state.has_commit_point else None,
    )


def _by_largest(store: StoreOperations, manifests: Sequence[FileStatus]) -> Survey:
    largest = max(manifests, key=lambda one: one.size, default=None)
    if largest is None:
        return Survey(RUNNING, files=0, bytes=0)
    manifest = decode_manifest(store.read(largest.path), largest.path)
    ratio = sum(one.size for one in manifests) / max(largest.size, 1)
    return Survey(
        RUNNING,
        manifests=len(manifests),
        files=round(ratio * len(manifest.files)),
        bytes=round(ratio * sum(file.z for file in manifest.files)),
        is_estimate=len(manifests) > 1,
    )


def _names(store: StoreOperations, job: JobAttempt, found: Survey) -> list[str]:
    """The manifests that count: those of the record once there is one."""
    if found.state == RECORDED:
        return [ref.name for ref in _read_record(store, job, committed=False).manifests]
    return [one.name for one in _manifests(store, job)]


def _count(
    store: StoreOperations, job: JobAttempt, name: str, *, looks_for_sources: bool
) -> tuple[int, int, int]:
    """The files and bytes of one manifest, and how many of its sources are still there."""
    path = join(job.manifests, name)
    manifest = decode_manifest(store.read(path), path)
    size = sum(file.z for file in manifest.files)
    left = _left(store, job, manifest) if looks_for_sources else 0
    return len(manifest.files), size, left


def _left(store: StoreOperations, job: JobAttempt, manifest: TaskManifest) -> int:
    own = manifest.task_attempt_dir
    directory = store_path(own, store.spec) if own else job.tasks
    there = {status.path for status in store.list_files(directory)}
    return sum(entry.source in there for entry in entries(manifest, store.spec))
