"""Write ``_SUCCESS``: a notice for other programs, in Hadoop's format.

Source: Hadoop SaveSuccessFileStage and ``ManifestSuccessData``.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.success import read_success
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, aggregate, count
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.staging import is_shared
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.success import (
    ATTEMPT,
    MAX_FILENAMES,
    RUN_ID,
    TABLE_VERSION,
    SuccessData,
    encode_success,
    new_success_data,
)
from ray_committer.stages.context import JobContext
from ray_committer.stages.take_away import is_still
from ray_committer.work.entries import uri_of
from ray_committer.work.packs import PackReader


@dataclass(frozen=True, slots=True)
class WrittenSuccess:
    """The future ``_SUCCESS``, under a name that no other committer of the job uses."""

    path: str
    data: bytes
    nonce: str


def write_success_file(
    context: JobContext,
    record: CommitRecord,
    filenames: Sequence[str],
    *,
    table_version: int | None = None,
) -> WrittenSuccess:
    """Write the content of ``_SUCCESS`` to a temporary name that only this run uses."""
    success = success_data(context, record, filenames, success=True, stage=names.COMMIT_JOB)
    if table_version is not None and success.diagnostics is not None:
        success.diagnostics[TABLE_VERSION] = str(table_version)
    written = WrittenSuccess(
        context.job.content(f"success-{new_nonce()}"), encode_success(success), record.nonce
    )
    context.own_files.prepare(written.path, written.data)
    # Before it gets its name: a power cut must not leave an empty one there.
    context.sync(written.path)
    return written


def write_small_success(
    context: JobContext, record: CommitRecord, packs: Sequence[Pack]
) -> WrittenSuccess | None:
    """`write_success_file` before the files of the `packs` are moved, if all can be moved at the same
    time: how long that takes tells little, and to write it afterwards takes as long."""
    if not record.mark_success or any(pack.data is None for pack in packs):  # to read one takes longer
        return None
    if not context.moves_at_once(record.files) and not _are_moved_at_once(context, packs):
        return None
    return write_success_file(context, record, sample_of(context, packs))


def _are_moved_at_once(context: JobContext, packs: Sequence[Pack]) -> bool:
    """Whether all files of the `packs` can be moved at the same time with their directories."""
    if not context.moves_at_once(0) or not context.places.moves_whole:
        return False
    reader, sources = PackReader(context.store, context.job), set[str]()
    for section in chain.from_iterable(map(reader.sections, packs)):
        sources.update(section.sources)
    return context.moves_at_once(len(sources)) and all(map(is_shared, sources))


def sample_of(context: JobContext, packs: Sequence[Pack]) -> list[str]:
    """The first files that the packs name, for ``_SUCCESS``."""
    reader = PackReader(context.store, context.job)
    entries = islice(chain.from_iterable(map(reader.entries, packs)), MAX_FILENAMES)
    return [uri_of(context.store.spec, entry.dest) for entry in entries]


def save_success_file(context: JobContext, written: WrittenSuccess, current: Seen | None = None) -> None:
    """Move the written ``_SUCCESS`` into place, atomically; idempotent. It replaces another one only
    while the job is in the state `current`, if that is given: after that, it can be another job's."""
    path = context.job.success
    try:
        context.own_files.put(
            path,
            written.data,
            temporary=written.path,
            is_prepared=True,
            # A committer that slept here must not put its notice over the one of a later job (R12).
            is_meant=lambda: current is None or is_still(context.store, context.job, current),
        )
    except FileNotFoundError:  # another committer did this, and has cleaned up
        success = read_success(context.store, context.job.destination)
        if success is None or (success.diagnostics or {}).get("nonce") != written.nonce:
            raise
    context.sync(context.job.destination)


def success_data(
    context: JobContext,
    record: CommitRecord | None,
    filenames: Sequence[str],
    *,
    success: bool,
    stage: str,
) -> SuccessData:
    """The content of ``_SUCCESS``, and of the summary report of a run that ended in `stage`."""
    diagnostics = {"executor": context.executor.name, "workers": str(context.executor.workers)}
    if record is not None:
        diagnostics |= {"nonce": record.nonce, "stamp": record.stamp}
        diagnostics[ATTEMPT] = str(record.job_attempt)
        diagnostics |= {RUN_ID: record.run_id} if record.run_id is not None else {}
    return new_success_data(
        job_id=context.job.job_id,
        now_milliseconds=context.now_milliseconds(),
        hostname=socket.gethostname(),
        success=success,
        stage=stage,
        filenames=filenames if success else [],
        diagnostics=diagnostics,
        iostatistics=_statistics(context, record),
    )


def _statistics(context: JobContext, record: CommitRecord | None) -> IOStatistics:
    statistics = context.journal.statistics
    if record is None:
        return statistics
    if names.FILES_COMMITTED not in statistics.counters:
        statistics = aggregate(statistics, count(names.FILES_COMMITTED, record.files))
        statistics = aggregate(statistics, count(names.BYTES_COMMITTED, record.bytes))
    return aggregate(statistics, record.statistics)
