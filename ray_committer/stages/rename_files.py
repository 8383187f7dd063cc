"""Move every file of the job to its destination exactly once, without ever replacing another file.

Optimistic: both ends are looked at only if a rename fails, so a commit without faults makes one request
per file. Source: Hadoop RenameFilesStage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import msgspec

from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import Durations, IOStatistics, aggregate, count
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.plan import Shard, ShardSizes, plan_shards
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.success import MAX_FILENAMES
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stages.run.shards import Done, ShardEnd, Shift, run_shards
from ray_committer.stores.base import StoreSpec
from ray_committer.work.entries import OldFileStaysError, uri_of
from ray_committer.work.publish_entry import publish_entry, require_unpublished
from ray_committer.work.worker import Worker

ATTEMPTS = 8
"""The attempts per rename; only a rename that certainly did not happen is repeated."""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What only the driver needs of a shard. Of the files of pack `index`, `done` and `held` are moved,
    or proved, and held back; `passed_over` were moved with their directories, and are done. The old
    files that keep their places are `staying`, each with the reason."""

    span: tuple[int, int] | None
    index: int
    done: int
    held: int
    passed_over: int
    sample: list[str]
    staying: dict[str, str]
    seconds_a_file: float


class _Held(msgspec.Struct, frozen=True, gc=False):
    """The answer for an entry that takes an old file's name later; why that one `stays`."""

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
    sizes = ShardSizes(
        files=record.files,
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
    for result in run_shards(context, record, renamed, work, shards):
        _add(renamed, result)
        sizes.learn(result.seconds_a_file)


def _add(renamed: Renamed, result: ShardResult) -> None:
    if result.span is not None:
        renamed.spans.append(result.span)
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
) -> tuple[ShardEnd, ShardResult]:
    """Work: rename the entries of one shard; stops at the first error or when cancelled."""
    again: list[None] = []  # one element per repeated rename; appending is thread-safe
    retried = partial(again.append, None)

    def rename(entry: Entry) -> Proof | _Held | None:
        old = overwritten.get(entry.dest)
        try:
            if old is not None and (which is Pass.NEW or old.path in stays):
                require_unpublished(worker.store, entry)
                return _Held()
            return publish_entry(worker.store, entry, ATTEMPTS, old, on_retry=retried)
        except OldFileStaysError as e:
            return _Held(str(e))

    with Shift(worker) as shift:  # a worker that waits for a pack is busy, too
        part = shard.pack, shard.low, shard.high
        entries = list(worker.packs.entries(*part, tasks=tasks, without=without))
        # Namesakes come second: what is in place with its directory was counted in the first pass.
        passed_over = 0 if which is Pass.NAMESAKES else shard.files - len(entries)
        if which is Pass.NAMESAKES:
            entries = [entry for entry in entries if entry.dest in overwritten]
        ended = shift.each(rename, entries)
    renames = [
        (1, made.item.expected.size, made.answer) for made in ended if not isinstance(made.answer, _Held)
    ]
    seconds = [made.seconds for made in ended if not isinstance(made.answer, _Held)]
    counted = _statistics(seconds, [took for _, took in shift.failed], len(again))
    return shift.end(renames, counted), _result(worker.store.spec, shard, ended, passed_over)


def _result(
    spec: StoreSpec, shard: Shard, ended: Sequence[Done[Entry, Proof | _Held | None]], passed_over: int
) -> ShardResult:
    moved = [made for made in ended if not isinstance(made.answer, _Held)]
    done = len(moved) + passed_over
    return ShardResult(
        span=(shard.start, shard.start + shard.files) if done == shard.files else None,
        index=shard.index,
        done=done,
        held=len(ended) - len(moved),
        passed_over=passed_over,
        sample=[uri_of(spec, made.item.dest) for made in moved[: shard.sample]],
        staying={
            made.item.dest: made.answer.stays
            for made in ended
            if isinstance(made.answer, _Held) and made.answer.stays is not None
        },
        seconds_a_file=sum(made.seconds for made in moved) / max(1, len(moved)),
    )


def _statistics(done: list[float], failed: list[float], retries: int) -> IOStatistics:
    durations = Durations()
    durations.add(names.COMMIT_FILE_RENAME, done)
    durations.add(names.COMMIT_FILE_RENAME, failed, failed=True)
    statistics = durations.statistics()
    return aggregate(statistics, count(names.STORE_IO_RETRY, retries)) if retries else statistics
