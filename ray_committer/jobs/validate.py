"""Compare the files at a destination with the manifests of a job, or with its ``_SUCCESS``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ray_committer.errors import JobGoneError, JobNotFoundError, ManifestError, ValidationError, mark
from ray_committer.job_files.commands import commit_command
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen
from ray_committer.jobs.open_job import OpenJob, StorageOptions, existing_state, open_here, open_job
from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import SUCCESS, join
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import decode_success
from ray_committer.stages.load_packs import load_packs
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import resolve_destination, shown_url


class Evidence(StrEnum):
    """The source that the destination was compared with."""

    MANIFESTS = "manifests"
    """Every file: its size, and its etag, checksum or time if a manifest has it."""
    SUCCESS = "_SUCCESS"
    """The names, at most 100, in a ``_SUCCESS``; neither sizes nor the other files."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result: `compared` of the job's `files` were compared; `files` is None if not known."""

    destination: str
    job_id: str | None
    evidence: Evidence
    compared: int
    files: int | None

    @property
    def is_complete(self) -> bool:
        """Whether every file of the job was compared by more than its name."""
        return self.evidence is Evidence.MANIFESTS


def validate_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> Validation:
    """Compare the destination with the job's manifests, or with ``_SUCCESS`` after they are gone.

    `ValidationError` names a difference, or reports that the job is not committed yet. Manifests exist
    until the clean-up, and stay after a commit without one (`CommitOptions.cleanup`). `JobGoneError` if
    `job_id` is given and neither the job nor its own ``_SUCCESS`` is there.

    >>> import ray_committer
    >>> report = ray_committer.commit_job(dest, "job_1")
    >>> found = validate_job(dest, "job_1")
    >>> found.compared, found.evidence.value
    (2, '_SUCCESS')
    """
    with open_here(dest, options, storage_options) as (store, destination):
        try:
            with open_job(
                dest, job_id, executor="threads", options=options, storage_options=storage_options
            ) as job:
                state = existing_state(job)
                if state.seen is not None and state.phase is Phase.COMMITTED:
                    return _by_manifests(job, state.seen)
                if state.phase in (Phase.RECORDED, Phase.SEALED):
                    raise ValidationError(
                        f"{mark(job.context.job.directory)}: the commit of this job has not ended",
                        f"finish it with: {commit_command(job.context.store, job.context.job)}",
                    )
                raise ValidationError(
                    f"{mark(job.context.job.directory)}: this job is not committed", "commit it first"
                )
        except JobNotFoundError as e:
            if isinstance(e, JobGoneError) and store.get_status(join(destination, SUCCESS)) is None:
                raise
        return _by_success(store, destination, job_id)


def _by_manifests(job: OpenJob, committed: Seen) -> Validation:
    context = job.context
    record = load_commit_record(context.store, context.job, committed.state)
    roots = (context.job.destination, *record.allowed_roots)
    loaded = load_packs(context, record, roots)
    compared = validate_renamed_files(context, loaded.packs)
    return Validation(context.url, context.job.job_id, Evidence.MANIFESTS, compared, record.files)


def _by_success(store: StoreOperations, destination: str, job_id: str | None) -> Validation:
    path = join(destination, SUCCESS)
    try:
        data = store.read(path)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise JobNotFoundError(
            f"{mark(destination)}: has neither the job nor a _SUCCESS, so there is nothing to compare",
            "check the destination's spelling",
        ) from e
    success = decode_success(data, path)
    if success is None:
        raise ManifestError(
            f"{mark(path)}: is the empty file of a classic committer, which lists no files",
            "compare the destination with the expected output of the job",
        )
    if job_id not in (None, success.job_id):
        raise JobGoneError(
            f"{mark(path)}: belongs to job {success.job_id}, not to {job_id}, which has left nothing",
            "a later job may have written there",
        )
    paths = [resolve_destination(uri)[1] for uri in success.filenames or ()]
    if missing := [path for path in paths if store.get_status(path) is None]:
        raise ValidationError(
            f"{mark(missing[0])}: is listed in {mark(path)} but missing", "find out what removed it"
        )
    counters = success.iostatistics.counters if success.iostatistics else {}
    files = counters.get(names.FILES_COMMITTED)
    url = shown_url(store.spec, destination)
    return Validation(url, success.job_id, Evidence.SUCCESS, len(paths), files)
