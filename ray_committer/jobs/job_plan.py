"""The plan of a commit as a value, and the number of requests that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from ray_committer.jobs.estimate import Job, Store, count_requests
from ray_committer.places.choose import needed
from ray_committer.protocol.pack import Entry, Pack, PackRef
from ray_committer.protocol.paths import join
from ray_committer.protocol.staging import is_staged
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import shown_url
from ray_committer.work.source_tallies import packed_tallies


@dataclass(frozen=True, slots=True)
class PlannedRename:
    """One file of the job: URLs or local paths, and bytes."""

    source: str
    destination: str
    size: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of a commit: counts, bytes, and whether an earlier run has begun it.

    destination: a URL, or a local path, as all paths here.
    state: "running" if no commit has begun; "recorded" or "sealed" if an earlier run has begun it, so
        that a part is done already; "committed" if only clean-up is left, "cleaned up" if nothing is.
    files, bytes: of the whole job; of these, the files and bytes that are `moved` already.
    directories: leaf directories of the files that are left; `first_directories` are the first by name.
    whole: so many of them would go whole, by one rename each, with `whole_files` files; `by_file` counts
        the others by the reason for which their files would be moved one by one. All of this is empty
        once a commit has begun.
    replaced: old files that are removed.
    first_renames: the first of those that are left, in the order of the manifests.
    unfinished: a sentence for each job in the way that has stopped: how it would be ended first, or why
        the commit would be refused.
    claims: the partitions of a table with a log that the commit would claim, or has claimed, relative to
        the destination; an empty path is the whole table. `claim` is the version of its claim there.
    requests: the approximate number of requests to the store, without work that is known to be done.
    """

    destination: str
    job_id: str
    job_attempt: int
    state: str
    manifests: int
    files: int
    bytes: int
    directories: int = 0
    replaced: int = 0
    whole: int = 0
    whole_files: int = 0
    by_file: dict[str, int] = field(default_factory=dict)
    first_directories: tuple[str, ...] = ()
    first_renames: tuple[PlannedRename, ...] = ()
    unfinished: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    claim: int | None = None
    requests: int = 0
    moved: int = 0
    moved_bytes: int = 0

    def seconds_at(self, requests_per_second: float) -> float:
        """How long the requests take at that rate, if the store keeps up with it."""
        return self.requests / requests_per_second


def new_plan(
    context: JobContext, state: str, tasks: int, packs: Sequence[PackRef], *, requests: int
) -> JobPlan:
    """A plan of the job in this context, with its totals and nothing else yet."""
    return JobPlan(
        destination=context.url,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        state=state,
        manifests=tasks,
        files=sum(pack.files for pack in packs),
        bytes=sum(pack.bytes for pack in packs),
        requests=requests,
    )


def planned_requests(context: JobContext, job: Job, replaced: int = 0) -> int:
    """The requests of the commit by the formula of an estimate, and one per replaced file."""
    place = (context.job.destination,)
    store = Store(
        name="",
        listing_is_cheap=context.store.capabilities.listing_is_cheap,
        makes_directories=bool(needed(context.store, place)),
        lists_versions=context.places.lists_versions,
        lists_uploads=bool(context.output.uploading(place)),
    )
    requests = count_requests(
        store, job, validates=context.options.validate, above=context.job.destination.count("/")
    )
    return sum(requests.values()) + replaced


def shared_sources(context: JobContext, packs: Sequence[Pack]) -> int | None:
    """The number of directories in which tasks have written side by side; None if each has its own."""
    tasks = context.job.tasks
    sources = {*chain.from_iterable(context.run(packed_tallies, packs))}
    return len(sources) if any(is_staged(join(tasks, path), tasks) for path in sources) else None


def planned_rename(spec: StoreSpec, entry: Entry) -> PlannedRename:
    """An entry as users see it."""
    return PlannedRename(shown_url(spec, entry.source), shown_url(spec, entry.dest), entry.expected.size)
