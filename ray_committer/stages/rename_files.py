"""Move every file of the job to its destination exactly once, without ever replacing another file.

Optimistic: both ends are looked at only if a rename fails, so a commit without faults makes one request
per file. Source: Hadoop RenameFilesStage.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import pairwise

import msgspec

from ray_committer.errors import CommitStateUnknownError, RayCommitterError, mark
from ray_committer.events import FilesRenamed, ShardRenamed
from ray_committer.executors.base import Place
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import Durations, IOStatistics, aggregate, count
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.paths import join
from ray_committer.protocol.plan import Shard, ShardSizes, count_by_pack, plan_shards
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.success import MAX_FILENAMES
from ray_committer.protocol.whole import ByFile
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.run.throttling import ThrottlingWatch
from ray_committer.stores.registry import shown_url
from ray_committer.work.entries import OldFileStaysError, uri_of
from ray_committer.work.publish_entry import publish_entry, require_unpublished
from ray_committer.work.worker import Worker

ATTEMPTS = 8
"""The attempts per rename; only a rename that certainly did not happen is repeated."""


@dataclass(slots=True)
class Renamed:
    """The result of the stage: files moved now, and files proved to have been moved before, by proof.
    `whole` are the spans of files of the job in shards of which each file was moved or proved. For other
    shards, `done_by_pack` and `held_by_pack` count the files of each pack. So many `directories` were
    moved whole, with `whole_files`, from the sources `in_place`, which are named if other files follow;
    the other directories are counted `by_file`."""

    moved: int = 0
    bytes: int = 0
    proved: Counter[str] = field(default_factory=Counter)
    whole: list[tuple[int, int]] = field(default_factory=list)
    done_by_pack: Counter[int] = field(default_factory=Counter)
    held_by_pack: Counter[int] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    """The old files in the places of new ones that cannot be moved, and why."""
    directories: int = 0
    whole_files: int = 0
    in_place: frozenset[str] = frozenset()
    passed_over: int = 0
    """The files that are in these sources by the packs, which shards have passed over."""
    by_file: Counter[ByFile] = field(default_factory=Counter)

    @property
    def files(self) -> int:
        return self.moved + self.proved.total()

    @property
    def statistics(self) -> IOStatistics:
        """The counters of the moved files."""
        statistics = count(names.FILES_COMMITTED, self.files)
        statistics = aggregate(statistics, count(names.BYTES_COMMITTED, self.bytes))
        if recovered := self.proved.total():
            statistics = aggregate(statistics, count(names.RENAME_RECOVERED, recovered))
        return statistics


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The result of one shard: its event, and what only the driver needs; `failure` ended it early. Of
    the files of pack `index`, `done` and `held` are moved, or proved, and held back; `passed_over` were
    moved with their directories, and are done. The old files that keep their places are `staying`, each
    with the reason."""

    event: ShardRenamed
    whole: tuple[int, int] | None
    index: int
    done: int
    held: int
    passed_over: int
    sample: list[str]
    staying: dict[str, str]
    seconds_a_file: float
    statistics: IOStatistics
    failure: RayCommitterError | None


class _Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one entry, `held` back if it takes an old file's name; why that one `stays`."""

    entry: Entry
    seconds: float
    proof: Proof | None = None
    held: bool = False
    stays: str | None = None


class Pass(StrEnum):
    """The entries to rename; an old file is replaced by its namesake only after the job is sealed."""

    NEW = "new"
    """Entries that replace no old file; for the others, only check that their sources are there."""
    NAMESAKES = "namesakes"
    """Entries that `NEW` has held back."""
    ALL = "all"


def rename_files(
    context: JobContext,
    record: CommitRecord,
    loaded: LoadedManifests,
    renamed: Renamed,
    which: Pass = Pass.ALL,
) -> None:
    """Rename entries of the packs that `record` names, adding up in `renamed`, but for those that were
    moved with their directories. Idempotent: files that an earlier run moved are proved and counted. A
    new file is held back if its old namesake cannot be replaced, or is in `renamed.held`. After the
    first error no shard is started; the shards in progress end, and then the error is raised."""
    failures: list[RayCommitterError] = []
    throttling = ThrottlingWatch(context)
    files, total_bytes = record.files, record.bytes  # sums over all manifests; a shard knows only a few
    sizes = ShardSizes(
        files=files,
        threads=context.executor.threads,
        width=context.executor.width,
        differ=context.executor.starts_workers,
    )
    work = partial(
        _rename_shard,
        which=which,
        overwritten={file.path: file for file in record.overwritten},
        stays=frozenset(renamed.held),
        without=renamed.in_place,
        tasks=context.job.tasks,
    )
    shards = plan_shards(loaded.packs, shard_files=sizes.next, sample=MAX_FILENAMES)
    # A generator: shards that are not begun when the first one fails are never made.
    items = (shard for shard in shards if not failures)
    for result in context.run(work, items):
        _add(renamed, result)
        sizes.learn(result.seconds_a_file)
        context.journal.add(result.statistics)
        if result.failure is not None:
            failures.append(result.failure)
        context.emit(result.event)
        context.emit(FilesRenamed(renamed.files, files, renamed.bytes, total_bytes))
        throttling.look(result.statistics)
    if failures:
        raise failures[0]


def reconcile(context: JobContext, loaded: LoadedManifests, renamed: Renamed) -> None:
    """Check for each pack that all its files were moved, proved or held back, alone or with their
    directories; and that these directories held what shards have passed over."""
    if renamed.passed_over != renamed.whole_files:
        raise CommitStateUnknownError(
            f"{mark(context.job.packs)}: names {renamed.passed_over} files of directories that were "
            f"moved whole, but these held {renamed.whole_files}",
            "nothing was cleaned up, so run the same command again",
        )
    partial_counts = renamed.done_by_pack + renamed.held_by_pack
    if not partial_counts and are_all(renamed.whole, loaded.files):
        return
    # A shard that was counted twice must not stand for one that is missing.
    is_twice = any(first[1] > then[0] for first, then in pairwise(sorted(renamed.whole)))
    done = count_by_pack(loaded.packs, renamed.whole) + partial_counts
    for index, pack in enumerate(loaded.packs):
        if is_twice or done[index] != pack.files:
            raise CommitStateUnknownError(
                f"{mark(join(context.job.packs, pack.ref.name))}: names {pack.files} files, but "
                f"{done[index]} were moved or proved",
                "nothing was cleaned up, so run the same command again",
            )


def are_all(spans: Sequence[tuple[int, int]], files: int) -> bool:
    """Whether `spans` are all of so many files, or of what else is counted, each once."""
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            return False
        end = stop
    return end == files


def _add(renamed: Renamed, result: ShardResult) -> None:
    renamed.moved += result.event.moved
    renamed.bytes += result.event.bytes
    renamed.proved.update(result.event.proved)
    if result.whole is not None:
        renamed.whole.append(result.whole)
    else:
        renamed.done_by_pack[result.index] += result.done
    renamed.held_by_pack[result.index] += result.held
    renamed.passed_over += result.passed_over
    renamed.held.update(result.staying)
    renamed.sample.extend(result.sample[: MAX_FILENAMES - len(renamed.sample)])


def _rename_shard(
    worker: Worker,
    shard: Shard,
    *,
    which: Pass,
    overwritten: Mapping[str, ReplacedFile],
    stays: frozenset[str],
    tasks: str,
    without: frozenset[str],
) -> ShardResult:
    """Work: rename the entries of one shard; stops at the first error or when cancelled."""
    failed: list[tuple[RayCommitterError, float]] = []
    again: list[None] = []  # one element per repeated rename; appending is thread-safe
    retried = partial(again.append, None)
    place = worker.where()
    # Before the entries are read: a worker that waits for a pack is busy, too.
    worker.busy.begin(place.worker, time.monotonic())

    def rename(entry: Entry) -> _Outcome | None:
        # Asked for each file: a shard can have hundreds of them to go.
        if failed or worker.cancelled.is_set():
            return None
        started = time.monotonic()
        old = overwritten.get(entry.dest)
        if old is None and which is Pass.NAMESAKES:
            return None
        try:
            if old is not None and (which is Pass.NEW or old.path in stays):
                require_unpublished(worker.store, entry)
                return _Outcome(entry, time.monotonic() - started, held=True)
            proof = publish_entry(worker.store, entry, ATTEMPTS, old, on_retry=retried)
        except OldFileStaysError as e:
            return _Outcome(entry, time.monotonic() - started, held=True, stays=str(e))
        except RayCommitterError as e:
            failed.append((e, time.monotonic() - started))
            return None
        return _Outcome(entry, time.monotonic() - started, proof)

    try:
        part = shard.pack, shard.low, shard.high
        shard_entries = list(worker.packs.entries(*part, tasks=tasks, without=without))
        ended = [outcome for outcome in worker.map(rename, shard_entries) if outcome is not None]
    finally:
        busy_seconds = worker.busy.end(place.worker, time.monotonic())
    outcomes = [outcome for outcome in ended if not outcome.held]
    located = (uri_of(worker.store.spec, outcome.entry.dest) for outcome in outcomes[: shard.sample])
    seconds = [outcome.seconds for outcome in outcomes]
    statistics = aggregate(
        _statistics(seconds, [took for _, took in failed], len(again)), worker.store.take_statistics()
    )
    failure = failed[0][0] if failed else None
    if failure is not None:
        failure.locate(shown_url(worker.store.spec, ""))
    # Namesakes come second: what is in place with its directory was counted in the first pass.
    passed_over = 0 if which is Pass.NAMESAKES else shard.files - len(shard_entries)
    done = len(outcomes) + passed_over
    return ShardResult(
        event=_event(place, busy_seconds, outcomes, statistics, failure),
        whole=(shard.start, shard.start + shard.files) if done == shard.files else None,
        index=shard.index,
        done=done,
        held=len(ended) - len(outcomes),
        passed_over=passed_over,
        sample=list(located),
        staying={outcome.entry.dest: outcome.stays for outcome in ended if outcome.stays is not None},
        seconds_a_file=sum(seconds) / max(1, len(seconds)),
        statistics=statistics,
        failure=failure,
    )


def _event(
    place: Place,
    busy_seconds: float,
    outcomes: Sequence[_Outcome],
    statistics: IOStatistics,
    failure: RayCommitterError | None,
) -> ShardRenamed:
    return ShardRenamed(
        worker=place.worker,
        node=place.node,
        process=place.process,
        seconds=busy_seconds,
        moved=sum(outcome.proof is None for outcome in outcomes),
        bytes=sum(outcome.entry.expected.size for outcome in outcomes),
        proved=dict(Counter(outcome.proof.value for outcome in outcomes if outcome.proof is not None)),
        retries=statistics.counters.get(names.STORE_IO_RETRY, 0),
        throttled=statistics.counters.get(names.STORE_IO_THROTTLED, 0),
        error=str(failure) if failure else None,
    )


def _statistics(done: list[float], failed: list[float], retries: int) -> IOStatistics:
    durations = Durations()
    durations.add(names.COMMIT_FILE_RENAME, done)
    durations.add(names.COMMIT_FILE_RENAME, failed, failed=True)
    statistics = durations.statistics()
    return aggregate(statistics, count(names.STORE_IO_RETRY, retries)) if retries else statistics
