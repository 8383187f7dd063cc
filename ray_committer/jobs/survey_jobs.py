"""Find the progress of the jobs at a destination: with a few requests per job, or from every manifest.

The cheap way makes up to three listings and a few small reads per job attempt of any size. A commit
record contains the number of files and bytes. Without one, they are estimated from the sizes of all
manifests and the content of the largest. The last heartbeat of a long commit shows how many files it has
moved. No file shows which files are left: that takes one read per task, and listings of its directories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import RayCommitterError
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.job_files.abort_uploads import mark
from ray_committer.job_files.commit_record import record_gone
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import problem
from ray_committer.job_files.manifests import list_manifest_files, read_listed
from ray_committer.job_files.read_job import read_other, state_of_job
from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, stamp_of
from ray_committer.protocol.pack import Entry, Pack
from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.protocol.record import ClaimedTable, CommitRecord, decode_record
from ray_committer.protocol.state import IN_THE_WAY, UNDECIDED, Phase
from ray_committer.stages.freeze_tasks import find_staging
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.uploads import pending_uploads
from ray_committer.work.packs import PackReader
from ray_committer.work.sources import list_directory

_SHOWN: dict[Phase | None, str] = {
    None: "unknown",
    Phase.OPEN: "running",
    Phase.DECLARED: "running",
    Phase.RECORDED: "recorded",
    Phase.SEALED: "sealed",
    Phase.COMMITTED: "committed",
    Phase.UNDOING: "undoing",
    Phase.ABORTED: "aborting",
}
_MOVING = (Phase.RECORDED, Phase.SEALED)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a person sees of a job attempt beside its `status`; see `ray_committer.JobSummary`.

    table: the claim that its record names.
    is_hadoops: Hadoop's manifest committer has set it up: it has no state, and its manifests no stamp.
    run_id: what it was set up to do once.
    """

    status: JobStatus
    manifests: int = 0
    files: int | None = None
    bytes: int | None = None
    is_estimate: bool = False
    left: int | None = None
    newest_milliseconds: int | None = None
    problem: str | None = None
    table: ClaimedTable | None = None
    is_hadoops: bool = False
    run_id: str | None = None

    @property
    def phase(self) -> Phase | None:
        """The phase, which is open without a state; None if the state could not be read."""
        return None if self.status.closed else self.status.phase or Phase.OPEN

    @property
    def state(self) -> str:
        """The state as it is shown to people."""
        return _SHOWN[self.phase]

    @property
    def begun(self) -> JobStatus | None:
        """The job, if its commit has begun."""
        return self.status if self.status.has_begun else None


def survey_job(store: StoreOperations, job: JobAttempt, now_milliseconds: int) -> Survey:
    """Survey a job attempt with a few listings and reads; a bad or closed file becomes a `problem`."""
    try:
        status = JobStatus(job, seen=state_of_job(store, job))
    except (PermissionError, RayCommitterError) as e:
        return Survey(JobStatus(job, closed=e), problem=problem(e, job.directory))
    try:
        return _survey(store, status, now_milliseconds)
    except (PermissionError, RayCommitterError) as e:
        return Survey(status, problem=problem(e, job.directory))


def _survey(store: StoreOperations, status: JobStatus, now_milliseconds: int) -> Survey:
    job, current, phase = status.job, status.seen, status.phase or Phase.OPEN
    listed = [
        *list_directory(store, job.directory),
        *(list_directory(store, job.state) if current else ()),
    ]
    manifests = _manifests(store, job) if phase in (*UNDECIDED, *_MOVING) else []
    times = [entry.modified_milliseconds for entry in (*listed, *manifests)]
    newest = max((time for time in times if time is not None), default=None)
    try:
        if current is not None and current.state.record is not None:
            survey = _by_record(store, status, current)
        else:
            survey = _by_largest(store, status, manifests)
        if phase in IN_THE_WAY:
            begun = read_other(store, job, now_milliseconds, wants_beat=True)
            survey = replace(survey, status=replace(begun or status, seen=current))
    except FileNotFoundError:  # the job has moved on
        survey = Survey(status)
    except RayCommitterError as e:
        survey = Survey(status, manifests=len(manifests), problem=str(e))
    if current is not None and current.state.table is not None and current.state.table.has_run:
        with suppress(FileNotFoundError):
            survey = replace(survey, run_id=store.read(job.run_id).decode(errors="replace"))
    return replace(survey, newest_milliseconds=newest)


def survey_exactly(
    store: StoreOperations, job: JobAttempt, now_milliseconds: int, *, threads: int
) -> Survey:
    """Read every manifest or, after the record, every pack, and list what is not moved yet."""
    survey = survey_job(store, job, now_milliseconds)
    if survey.problem is not None or survey.phase not in (*UNDECIDED, *_MOVING):
        return survey
    pool = ThreadPool(threads)
    try:
        if survey.phase in _MOVING:
            return replace(survey, left=_count_left(store, job, pool))
        listed = [file.name for file in _manifests(store, job)]
        counted = list(pool.map(partial(_count, store, job), listed))
    except FileNotFoundError:
        return survey
    except (PermissionError, RayCommitterError) as e:
        return replace(survey, problem=problem(e, job.directory))
    finally:
        pool.close()
    return replace(
        survey,
        files=sum(files for files, _ in counted),
        bytes=sum(size for _, size in counted),
        is_estimate=False,
    )


def _manifests(store: StoreOperations, job: JobAttempt) -> list[FileStatus]:
    try:
        return [file for file in list_manifest_files(store, job) if not file.is_directory]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _by_record(store: StoreOperations, status: JobStatus, current: Seen) -> Survey:
    job = status.job
    try:
        record = _read_record(store, job, current)
    except FileNotFoundError:
        if current.phase in (Phase.COMMITTED, Phase.ABORTED) or read_state(store, job) != current:
            raise
        raise record_gone(job, current.state) from None
    return Survey(
        status,
        manifests=record.tasks,
        files=record.files,
        bytes=record.bytes,
        left=0 if current.phase is Phase.COMMITTED else None,
        table=record.table,
    )


def _read_record(store: StoreOperations, job: JobAttempt, current: Seen) -> CommitRecord:
    path = job.content(current.state.record or "")
    return decode_record(store.read(path), path)


def _by_largest(store: StoreOperations, status: JobStatus, manifests: Sequence[FileStatus]) -> Survey:
    # One read stands for all: the largest manifest shows how many bytes of manifest a file takes.
    largest = max(manifests, key=lambda file: file.size, default=None)
    if largest is None:
        return Survey(status, files=0, bytes=0)
    manifest = decode_manifest(read_listed(store, largest), largest.path)
    ratio = sum(file.size for file in manifests) / max(largest.size, 1)
    return Survey(
        status,
        manifests=len(manifests),
        files=round(ratio * len(manifest.files)),
        bytes=round(ratio * sum(file.z for file in manifest.files)),
        is_estimate=len(manifests) > 1,
        is_hadoops=status.seen is None and stamp_of(manifest) is None,
    )


def _count(store: StoreOperations, job: JobAttempt, name: str) -> tuple[int, int]:
    files = _read_manifest(store, job, name).files
    return len(files), sum(file.z for file in files)


def _read_manifest(store: StoreOperations, job: JobAttempt, name: str) -> TaskManifest:
    path = join(job.manifests, name)
    try:
        return decode_manifest(store.read(path), path)
    except FileNotFoundError:
        path = join(job.frozen, name)
        return decode_manifest(store.read(path), path)


def _count_left(store: StoreOperations, job: JobAttempt, pool: ThreadPool) -> int | None:
    """How many files of a recorded job are not moved yet; None if it has moved on."""
    current = read_state(store, job)
    if current is None or current.phase not in _MOVING:
        return None
    record, reader = _read_record(store, job, current), PackReader(store, job)
    pending, left = pending_marks(store, (job.destination, *record.allowed_roots)), 0
    place = find_staging(store, job, current.state)
    if place is None:
        return None
    for pack in record.packs:
        recorded = list(reader.entries(Pack(pack), tasks=place.tasks))
        left += sum(1 for _ in entries_left(store, recorded, pending, each=pool.map))
    return left


def pending_marks(store: StoreOperations, roots: Iterable[str]) -> frozenset[bytes]:
    """A mark for each pending upload below some directories; none on a store with renames."""
    return frozenset(
        mark(upload.path, upload.id) for root in {*roots} for upload in pending_uploads(store, root)
    )


def entries_left(
    store: StoreOperations,
    recorded: Sequence[Entry],
    pending: frozenset[bytes],
    *,
    each: Callable[..., Iterable[list[FileStatus]]] = map,
) -> Iterator[Entry]:
    """The entries of files that are not moved yet, by listings of directories and `pending_marks`."""
    directories = {parent(entry.source) for entry in recorded if isinstance(entry, Rename)}
    listings = each(partial(list_directory, store, anew=True), directories)
    there = {status.path for listing in listings for status in listing}
    for entry in recorded:
        if isinstance(entry, CompleteUpload):
            is_left = mark(entry.dest, entry.id) in pending
        else:
            is_left = entry.source in there
        if is_left:
            yield entry
