"""Plan what is left of a commit that has begun: files that are not in their places, and the clean-up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from ray_committer.job_files.job_state import Seen
from ray_committer.jobs.job_plan import (
    JobPlan,
    PlannedRename,
    new_plan,
    planned_rename,
    planned_requests,
)
from ray_committer.jobs.open_job import OpenJob
from ray_committer.jobs.survey_jobs import entries_left, pending_marks
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests
from ray_committer.stages.run.coordinator_loss import load_with_coordinator
from ray_committer.stages.save_commit_record import refuse_aborted, refuse_foreign_paths
from ray_committer.stores.registry import shown_url
from ray_committer.tables.jobs_in_log import read_jobs_in_log
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is left to be moved of the manifest with this number, and the `first` of these renames."""

    number: int
    files: int
    bytes: int
    directories: frozenset[str]
    first: tuple[PlannedRename, ...]


def plan_rest(job: OpenJob, current: Seen, record: CommitRecord, first: int) -> JobPlan:
    """Plan what is left of a commit that has begun."""
    context = job.context
    refuse_aborted(context, current.phase)
    refuse_foreign_paths(context, record, (*job.replaced_roots, *job.allowed_roots))
    loaded = load_to_plan(job, current, record)
    pending = pending_marks(context.store, (context.job.destination, *record.allowed_roots))
    work = partial(_rest_of, pending=pending, limit=first)
    rests = sorted(context.executor.run(work, enumerate(loaded.manifests)), key=attrgetter("number"))
    leaves = sorted({path for rest in rests for path in rest.directories})
    left, left_bytes = sum(rest.files for rest in rests), sum(rest.bytes for rest in rests)
    removed = len(record.replaced)
    in_log = read_jobs_in_log(context.store, context.job.destination)
    logged = in_log.of(context.job, current.state.stamp)
    requests = planned_requests(context, len(record.manifests), left, len(leaves), removed)
    return replace(
        new_plan(context, current.phase.value, record.manifests, requests=requests),
        directories=len(leaves),
        replaced=removed,
        first_directories=tuple(shown_url(context.store.spec, path) for path in leaves[:first]),
        first_renames=tuple(rename for rest in rests for rename in rest.first)[:first],
        claims=logged.partitions if logged else (),
        claim=logged.claim if logged else None,
        moved=record.files - left,
        moved_bytes=record.bytes - left_bytes,
    )


def load_to_plan(job: OpenJob, current: Seen | None, record: CommitRecord | None) -> LoadedManifests:
    """Load the manifests as the commit would, and save nothing."""
    context = job.context
    allowed = tuple(record.allowed_roots) if record else job.allowed_roots
    roots = (context.job.destination, *allowed)
    stamp = current.state.stamp if current else UNSTAMPED
    look = partial(load_manifests, context, record, roots, stamp=stamp, changes_nothing=True)
    return load_with_coordinator(context, look)


def _rest_of(
    worker: Worker, numbered: tuple[int, ManifestRef], *, pending: frozenset[bytes], limit: int
) -> _Rest:
    """Work: what a commit that has begun has not moved yet of one manifest."""
    number, ref = numbered
    manifest = worker.recorded(ref).manifest
    left = list(entries_left(worker.store, worker.job, manifest, pending))
    return _Rest(
        number,
        files=len(left),
        bytes=sum(entry.expected.size for entry in left),
        directories=frozenset(parent(entry.dest) for entry in left),
        first=tuple(planned_rename(worker.store.spec, entry) for entry in left[:limit]),
    )
