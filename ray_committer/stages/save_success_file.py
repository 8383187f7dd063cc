"""Write ``_SUCCESS`` and summary reports: notices for others, in Hadoop's format.

Source: Hadoop SaveSuccessFileStage and ``ManifestSuccessData``.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence

from ray_committer.errors import RayCommitterError
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, aggregate, count
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.success import SuccessData, encode_success, new_success_data
from ray_committer.stages.context import JobContext
from ray_committer.stages.settle import put_file

_log = logging.getLogger(__name__)


def save_success_file(context: JobContext, record: CommitRecord, filenames: Sequence[str]) -> None:
    """Put ``_SUCCESS`` in place, atomically; idempotent."""
    data = _success_data(context, record, filenames, success=True, stage=names.COMMIT_JOB)
    temporary = join(context.job.directory, "_SUCCESS.tmp")
    put_file(context.store, temporary, context.job.success, encode_success(data))
    context.sync(context.job.success, context.job.destination)


def save_summary_report(
    context: JobContext,
    record: CommitRecord | None,
    filenames: Sequence[str],
    failure: Exception | None,
) -> None:
    """Write ``summary-$jobId.json`` if a directory for it was named; a failure to is only logged."""
    directory = context.options.summary_directory
    if directory is None:
        return
    stage = context.journal.failed_stage or names.COMMIT_JOB
    data = _success_data(context, record, filenames, success=failure is None, stage=stage)
    if failure is not None and data.diagnostics is not None:
        data.diagnostics["exception"] = f"{type(failure).__name__}: {failure}"
    path = join(directory, f"summary-{context.job.job_id}.json")
    try:
        context.store.mkdirs(directory)
        put_file(context.store, path + ".tmp", path, encode_success(data))
    except (OSError, RayCommitterError) as e:
        _log.warning("%s: the summary report could not be written: %s", path, e)


def _success_data(
    context: JobContext,
    record: CommitRecord | None,
    filenames: Sequence[str],
    *,
    success: bool,
    stage: str,
) -> SuccessData:
    diagnostics = {"executor": context.executor.name, "workers": str(context.executor.width)}
    if record is not None:
        diagnostics["nonce"] = record.nonce
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
    if record is not None and names.FILES_COMMITTED not in statistics.counters:
        statistics = aggregate(statistics, count(names.FILES_COMMITTED, record.files))
        statistics = aggregate(statistics, count(names.BYTES_COMMITTED, record.bytes))
    return statistics
