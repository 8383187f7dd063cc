"""Rewrite the small files of a table as fewer larger ones, while other jobs append to it.

The files are those of one snapshot. The claim of the job has the version of the snapshot as its base, so
it is refused if one of the files may have been replaced since then. Each worker gets bins: small files
of one directory that fit into one file together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from ray_committer.errors import CommitConflictError, PathError, SettingsError, some_of
from ray_committer.options import CommittedTask
from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_entry import WriteMode
from ray_committer.protocol.table_paths import TablePlaces, is_hidden
from ray_committer.protocol.table_state import TableState
from ray_committer.protocol.table_work import TableWork
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stages.context import JobContext
from ray_committer.stages.read_files import find_read_files
from ray_committer.stages.table_job import TableTasks, run_table_job
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class Bin:
    """Small files of one `directory`, relative to the table, in the order of their paths."""

    number: int
    directory: str
    files: tuple[ReplacedFile, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is to be rewritten of version `base` of a table; in the partitions `at_work`, another job is
    in the way."""

    table_id: str
    base: int
    bins: tuple[Bin, ...]
    at_work: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result for one bin: its task attempts, and the files whose rows they have; the others stay as
    they are, with the reason for each."""

    tasks: tuple[CommittedTask, ...] = ()
    sources: tuple[ReplacedFile, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


def plan_compaction(
    store: StoreOperations,
    table: TablePlaces,
    table_id: str,
    partitions: Sequence[str],
    target_bytes: int,
) -> Compaction:
    """Choose the files to rewrite in some partitions, or in all if none is given; changes nothing.

    `SettingsError` if a file is not Parquet. `PathError` if a partition has no files.
    `CommitConflictError` if a file is not there as the log names it.
    """
    at = FilesAt(store, table, table_id)
    chosen: dict[str, ListedFile] = {}
    for partition in partitions or ("",):
        found = [file for file in at.below(partition) if not is_hidden(file.p)]
        if partition and not found:
            raise PathError(
                f"{table.destination}: has no files in {partition} at version {at.state.version}",
                "nothing was changed: name a partition as `table files` shows it",
            )
        chosen |= {file.p: file for file in found}
    files = [chosen[path] for path in sorted(chosen, key=_in_directories)]
    if others := [file.p for file in files if not file.p.endswith(".parquet")]:
        raise SettingsError(
            f"{table.destination}: {some_of(others)} is not Parquet, and only Parquet files can be "
            f"rewritten",
            "nothing was changed: name the partitions to rewrite, without such files",
        )
    at_work = _at_work(at.state, {partition_of(file.p) for file in files})
    small = [file for file in files if file.z < target_bytes and partition_of(file.p) not in at_work]
    packed = [one for one in _packed(small, target_bytes) if len(one) > 1]
    facts = iter(find_read_files(store, table.destination, [file for one in packed for file in one]))
    bins = tuple(
        Bin(number, partition_of(one[0].p), tuple(next(facts) for _ in one))
        for number, one in enumerate(packed)
    )
    return Compaction(table_id, at.state.version, bins, tuple(sorted(at_work)))


def compact_table(
    context: JobContext,
    plan: Compaction,
    rewrite: Callable[[Worker, Bin], Rewritten],
    *,
    on_result: Callable[[CommitResult], None] = lambda _: None,
) -> CommitResult | None:
    """Run a job that rewrites the bins of a plan; None if no file was rewritten. Errors as those of a
    commit; `CommitConflictError` if another job has replaced files since the plan was made."""
    return run_table_job(context, partial(_rewrite, plan=plan, rewrite=rewrite), on_result=on_result)


def _rewrite(
    context: JobContext, *, plan: Compaction, rewrite: Callable[[Worker, Bin], Rewritten]
) -> TableTasks | None:
    bins = context.until_cancelled(plan.bins)
    try:
        done = list(context.executor.run(rewrite, bins))
    except FileNotFoundError as e:
        raise CommitConflictError(
            f"{e.filename or context.job.destination}: is gone since the job has read version "
            f"{plan.base} of the table",
            "nothing was changed: run the same command again",
        ) from e
    context.check_cancelled()
    left: dict[str, list[str]] = {}
    for path, reason in sorted(item for one in done for item in one.left.items()):
        left.setdefault(reason, []).append(path)
    for reason, paths in left.items():
        context.notice(f"{some_of(paths)}: was left as it is, because {reason}")
    replaced = tuple(file for one in done for file in one.sources)
    if not replaced:
        return None
    own = {file.path for file in replaced}
    directories = {one.directory for one in plan.bins if any(file.path in own for file in one.files)}
    partitions = tuple(sorted(directories))
    work = TableWork(WriteMode.REWRITE, plan.table_id, plan.base, partitions, replaced)
    return TableTasks(work, tuple(task for one in done for task in one.tasks))


def _at_work(state: TableState, directories: set[str]) -> set[str]:
    """The directories in which a job is in flight that does more than append."""
    others = [one.claim for one in state.in_flight if one.claim.mode is not WriteMode.APPEND]
    claimed = [path for claim in others for path in claim.partitions]
    return common_partitions(directories, claimed) & directories


def _in_directories(path: str) -> tuple[str, str]:
    return partition_of(path), path


def _packed(files: Sequence[ListedFile], target_bytes: int) -> Iterator[list[ListedFile]]:
    """The files in their order, in bins of up to `target_bytes` of one directory."""
    for _, group in groupby(files, lambda file: partition_of(file.p)):
        packed, held = list[ListedFile](), 0
        for file in group:
            if packed and held + file.z > target_bytes:
                yield packed
                packed, held = [], 0
            packed.append(file)
            held += file.z
        yield packed
