"""Move every file of the job to its place, each exactly once, without ever replacing another.

Optimistic: rename first, and look at both ends only when that fails, so a commit without faults costs
one request a file. Workers are given ranges of manifests and parse those themselves.
Source: Hadoop RenameFilesStage.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    RayCommitterError,
)
from ray_committer.events import FilesRenamed
from ray_committer.protocol.plan import Shard, plan_shards
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.recovery import Judgement, Proof, Verdict, judge_rename, prove
from ray_committer.protocol.success import MAX_FILENAMES
from ray_committer.protocol.uri import Location, format_uri
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import Entry, entries
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus, StoreOperations

RETRY_SECONDS = 0.2


@dataclass(slots=True)
class Renamed:
    """What the stage did: files moved now, files proved to have been moved before, by proof."""

    moved: int = 0
    bytes: int = 0
    proved: Counter[Proof] = field(default_factory=Counter)
    done_by_manifest: Counter[int] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        return self.moved + self.proved.total()


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What one shard did, with the error that ended it early."""

    moved: int
    bytes: int
    proved: dict[Proof, int]
    done_by_manifest: dict[int, int]
    sample: list[str]
    failure: RayCommitterError | None


@dataclass(frozen=True, slots=True)
class _Outcome:
    entry: Entry
    index: int
    proof: Proof | None = None
    failure: RayCommitterError | None = None


def rename_files(context: JobContext, record: CommitRecord, renamed: Renamed) -> None:
    """Rename all entries of the manifests that `record` names, adding up in `renamed`.

    Idempotent: what an earlier run moved is proved and counted. After the first error no shard is
    started; those in progress end, then that error is raised.
    """
    failures: list[RayCommitterError] = []
    work = partial(
        _rename_shard,
        overwritten={file.path: file for file in record.overwritten},
        attempts=context.options.rename_attempts,
    )
    shards = (shard for shard in _shards(context, record) if not failures)
    for result in context.executor.run_on_workers(work, context.until_cancelled(shards)):
        _add(renamed, result)
        if result.failure is not None:
            failures.append(result.failure)
        context.emit(FilesRenamed(renamed.files, record.files))
    context.check_cancelled()
    if failures:
        raise failures[0]


def reconcile(context: JobContext, record: CommitRecord, renamed: Renamed) -> None:
    """Compare what was recorded with what was moved or proved, manifest by manifest."""
    for index, manifest in enumerate(record.manifests):
        done = renamed.done_by_manifest[index]
        if done != manifest.files:
            raise CommitStateUnknownError(
                f"{context.job.manifests}/{manifest.name}: names {manifest.files} files, but {done} "
                f"were moved or proved; nothing was cleaned up, run the same command again"
            )


def _shards(context: JobContext, record: CommitRecord) -> Iterator[Shard]:
    even = -(-record.files // (4 * context.executor.width))
    size = max(1, min(context.options.shard_files, even))
    return plan_shards(record.manifests, shard_files=size, sample=MAX_FILENAMES)


def _add(renamed: Renamed, result: ShardResult) -> None:
    renamed.moved += result.moved
    renamed.bytes += result.bytes
    renamed.proved.update(result.proved)
    renamed.done_by_manifest.update(result.done_by_manifest)
    renamed.sample.extend(result.sample[: MAX_FILENAMES - len(renamed.sample)])


def _rename_shard(
    worker: Worker,
    shard: Shard,
    *,
    overwritten: Mapping[str, ReplacedFile],
    attempts: int,
) -> ShardResult:
    """Work: rename the entries of one shard; stops at the first error or when cancelled."""
    failed: list[RayCommitterError] = []

    def rename(item: tuple[int, Entry]) -> _Outcome | None:
        if failed or worker.cancelled.is_set():
            return None
        index, entry = item
        try:
            old = overwritten.get(entry.dest)
            return _Outcome(entry, index, rename_entry(worker.store, entry, attempts, old))
        except RayCommitterError as e:
            failed.append(e)
            return None

    outcomes = [one for one in worker.map(rename, _entries(worker, shard)) if one is not None]
    located = (_uri(worker, one.entry.dest) for one in outcomes[: shard.sample])
    return ShardResult(
        moved=sum(one.proof is None for one in outcomes),
        bytes=sum(one.entry.expected.size for one in outcomes),
        proved=dict(Counter(one.proof for one in outcomes if one.proof is not None)),
        done_by_manifest=dict(Counter(one.index for one in outcomes)),
        sample=list(located),
        failure=failed[0] if failed else None,
    )


def _entries(worker: Worker, shard: Shard) -> Iterator[tuple[int, Entry]]:
    for part in shard.ranges:
        manifest = worker.recorded_manifest(part.manifest)
        for entry in entries(manifest, worker.store.spec, part.low, part.high):
            yield part.index, entry


def _uri(worker: Worker, path: str) -> str:
    return format_uri(Location(worker.store.spec.scheme, worker.store.spec.authority, path))


def rename_entry(
    store: StoreOperations, entry: Entry, attempts: int, old: ReplacedFile | None = None
) -> Proof | None:
    """Rename one file; None if it was moved now, else the proof that it had been moved before.

    `old` is the recorded file that may be replaced by this one. `CommitConflictError` if another
    file is at the destination, `CommitStateUnknownError` if the file is lost, cannot be moved, or
    the store does not tell.
    """
    for attempt in range(1, attempts + 1):
        try:
            store.rename(entry.source, entry.dest)
            return None
        except OSError as e:
            judgement, dest = _judge(store, entry, e)
            if judgement.proof is Proof.SIZE_ONLY and _is_old(dest, old):
                judgement = Judgement(Verdict.LOST)
            if judgement.verdict is Verdict.DONE:
                return _finish(store, entry, judgement)
            if judgement.verdict is Verdict.CONFLICT and _is_old(dest, old):
                _replace(store, entry)
                return None
            if judgement.verdict is not Verdict.NOT_DONE or _is_final(e, attempt, attempts):
                raise _error(entry, judgement, e) from e
            time.sleep(RETRY_SECONDS * attempt)
    raise AssertionError("the last attempt returns or raises")


def _is_final(error: OSError, attempt: int, attempts: int) -> bool:
    return attempt == attempts or isinstance(error, PermissionError | FileNotFoundError)


def _judge(store: StoreOperations, entry: Entry, cause: OSError) -> tuple[Judgement, FileStatus | None]:
    try:
        source, dest = store.get_status(entry.source), store.get_status(entry.dest)
    except OSError as e:
        raise CommitStateUnknownError(
            f"{entry.dest}: whether the file arrived is not known: the rename said {cause!r} and "
            f"the store does not tell more ({e}); mend that and run the same command"
        ) from cause
    if any(status is not None and status.is_directory for status in (source, dest)):
        return Judgement(Verdict.CONFLICT), None
    return judge_rename(
        entry.expected,
        source.observation() if source else None,
        dest.observation() if dest else None,
    ), dest


def _finish(store: StoreOperations, entry: Entry, judgement: Judgement) -> Proof | None:
    if judgement.proof is Proof.SAME_FILE:
        store.delete_file(entry.source)
    return judgement.proof


def _is_old(dest: FileStatus | None, old: ReplacedFile | None) -> bool:
    if dest is None or old is None:
        return False
    return (dest.size, dest.modified_milliseconds, dest.etag) == (
        old.size,
        old.modified_milliseconds,
        old.etag,
    )


def _replace(store: StoreOperations, entry: Entry) -> None:
    """Let the new file take the place of the recorded old one, if it is what its manifest says."""
    source = store.get_status(entry.source)
    if source is None or prove(entry.expected, source.observation()) is None:
        raise CommitStateUnknownError(
            f"{entry.source}: was changed after its manifest was saved, so it must not replace "
            f"{entry.dest}; put back what the task wrote and run the same command"
        )
    store.replace(entry.source, entry.dest)


def _error(entry: Entry, judgement: Judgement, cause: OSError) -> RayCommitterError:
    if judgement.verdict is Verdict.CONFLICT and isinstance(cause, FileNotFoundError):
        return CommitConflictError(
            f"{entry.dest}: is not what its manifest says, and the file that the task wrote as "
            f"{entry.source} is gone: it was changed before or after it was moved. Nothing was "
            f"deleted; restore the task's file here and run the same command"
        )
    if judgement.verdict is Verdict.CONFLICT:
        return CommitConflictError(
            f"{entry.dest}: is there already and is not the file that the task wrote as "
            f"{entry.source}; nothing was overwritten: move it away and run the same command"
        )
    if judgement.verdict is Verdict.LOST:
        return CommitStateUnknownError(
            f"{entry.source}: is gone and {entry.dest} is not there either; something else deleted "
            f"it. Nothing was cleaned up; put the file back at either place"
        )
    return CommitStateUnknownError(
        f"{entry.source}: could not be renamed to {entry.dest} ({cause.strerror or cause}); mend "
        f"that and run the same command to finish the commit"
    )
