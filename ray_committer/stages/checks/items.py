"""Check, before the record, that directories have room for the job's files, where names are limited.

In a table with a log, a job checks after it has put its claim, and counts the files of the claims before
its own. So of two jobs that have no room together, the one with the later claim is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ray_committer.errors import PreflightError, mark, some_of
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.context import JobContext
from ray_committer.tables.file_sets import each_file
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker


def most_held(
    context: JobContext, packs: Sequence[Pack], before: Sequence[ClaimInFlight] = ()
) -> int | None:
    """How many names leave room for the files of the job and of the claims `before` it; None: any."""
    limit = context.store.capabilities.max_directory_items
    files = sum(pack.files for pack in packs) + sum(pending.claim.files.files for pending in before)
    return None if limit is None else limit - files


def check_items(
    context: JobContext,
    packs: Sequence[Pack],
    directories: Sequence[str],
    held: Mapping[str, int],
    old: Sequence[ReplacedFile],
    namesakes: frozenset[str],
    before: Sequence[ClaimInFlight] = (),
) -> None:
    """`PreflightError` that names the `directories` with too many names; `held` are the numbers of
    names in some of them. The `old` files count, since they are removed last; the job writes the
    `namesakes` among them again. So do the files of the claims `before` the job's own. A directory that
    holds more than the limit shows that the store has another limit."""
    # HDFS (`dfs.namenode.fs-limits.max-directory-items`) refuses only the rename that is one too many,
    # when the commit is in the middle: so the names are counted before the record (D5).
    most, limit = most_held(context, packs, before), context.store.capabilities.max_directory_items
    if most is None or limit is None:
        return
    all_held = Counter(parent(file.path) for file in old) | Counter(held)
    crowded = {path: all_held[path] for path in directories if most < all_held[path] <= limit}
    if not crowded:
        return
    # Only directories that are nearly full are worth another pass over all packs.
    work = partial(_added_by_pack, directories=frozenset(crowded), namesakes=namesakes)
    added: Counter[str] = Counter()
    for counted in context.executor.run(work, packs):
        added.update(counted)
    rooms = {path: _Room(crowded[path]) for path in added}
    rooms |= _with_claims(context, before, rooms.keys())
    full = {path: rooms[path] for path in sorted(rooms) if rooms[path].taken + added[path] > limit}
    if full:
        raise _no_room(full, added, limit)


@dataclass(frozen=True, slots=True)
class _Room:
    """How many names a directory holds, and those that are to come from claims, each with its job."""

    held: int
    coming: Mapping[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        return self.held + len(self.coming)


def _no_room(full: Mapping[str, _Room], added: Mapping[str, int], limit: int) -> PreflightError:
    named = [
        f"{mark(path)}: holds {room.held} names and gets {added[path]} more"
        + (f", besides {len(room.coming)} of jobs at work" if room.coming else "")
        for path, room in full.items()
    ]
    error = PreflightError(
        f"{some_of(named)}, but the store allows {limit} in a directory",
        "nothing was changed: abort the job, and write fewer files, or to more directories; if the "
        "store allows more, set that limit in its storage options",
    )
    if jobs := sorted({job_id for room in full.values() for job_id in room.coming.values()}):
        error.advise(f"if one of the jobs at work ({some_of(jobs)}) is given up, run the same command")
    return error


def _with_claims(
    context: JobContext, before: Sequence[ClaimInFlight], directories: Collection[str]
) -> dict[str, _Room]:
    """The rooms of the directories to which the jobs of other claims add files. They move files at this
    time, so one listing shows what is there and what is to come."""
    table, coming = TablePlaces(context.job.destination), defaultdict[str, dict[str, str]](dict)
    for claim in (pending.claim for pending in before):
        files = each_file(
            context.store, table, claim.files, job_id=claim.job_id, job_attempt=claim.job_attempt
        )
        for path in (join(table.destination, file.path) for file in files):
            if parent(path) in directories:
                coming[parent(path)][path] = claim.job_id
    rooms: dict[str, _Room] = {}
    for directory, jobs in coming.items():
        # Listed after the log was read: a file that is moved in between counts once.
        names = {status.path for status in list_directory(context.store, directory, anew=True)}
        rooms[directory] = _Room(len(names), {path: jobs[path] for path in jobs.keys() - names})
    return rooms


def _added_by_pack(
    worker: Worker, pack: Pack, *, directories: frozenset[str], namesakes: frozenset[str]
) -> Counter[str]:
    """Work: count the new names that the files of a pack add to these `directories`."""
    loaded = worker.packs.entries(pack)
    above = (parent(entry.dest) for entry in loaded if entry.dest not in namesakes)
    return Counter(path for path in above if path in directories)
