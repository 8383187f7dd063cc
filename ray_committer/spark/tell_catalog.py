"""Tell the catalog of a Spark session of a job's partitions, after the job is committed.

The job stays committed whatever happens here: a failure is a notice with the command that repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from ray_committer.errors import RayCommitterError
from ray_committer.options import CommitOptions
from ray_committer.report.commit_report import CommitReport
from ray_committer.spark.catalog import SparkTable
from ray_committer.table_jobs.partitions import open_partitions, tell_catalog

_log = logging.getLogger(__name__)

OpenTable = Callable[[str], SparkTable]


def catalog_told(
    report: CommitReport,
    open_table: OpenTable,
    dest: str,
    *,
    options: CommitOptions,
    storage_options: Mapping[str, Any],
) -> CommitReport:
    """Tell the catalog that `options` name; return the report without its command for that, or with a
    notice if it failed. Idempotent."""
    try:
        table = open_table(str(options.catalog_table))
        with open_partitions(dest, options=options, storage_options=storage_options) as partitions:
            changes = tell_catalog(partitions, table, _touched(report))
        table.refresh()
    except Exception as e:  # noqa: BLE001 - the job is committed, which no error here may hide
        return _noted(report, e)
    _log.info("%s: told of %d partitions, %d gone", table.table, len(changes.there), len(changes.gone))
    return structs.replace(report, catalog_command="")


def _touched(report: CommitReport) -> list[str] | None:
    """The directories in question; None for all. Files in the destination itself fit no partition."""
    if report.partitions == [] and report.files:
        return [""]
    return report.partitions


def _noted(report: CommitReport, error: Exception) -> CommitReport:
    what = error.what if isinstance(error, RayCommitterError) else f"{type(error).__name__}: {error}"
    text = f"the job is committed, but the catalog was not told of its partitions: {what}"
    if report.catalog_command:
        text = f"{text}; fix that, then run the statements of: {report.catalog_command}"
    _log.warning("%s", text)
    _log.debug("the traceback of that", exc_info=error)
    return structs.replace(report, notices=[*report.notices, text])
