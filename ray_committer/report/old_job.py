"""The report of an old job, from its ``_SUCCESS`` file or summary report: ours or Hadoop's.

Such a file contains counts and durations. The report lists what the file does not contain, and never
makes it up.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.paths import SUCCESS
from ray_committer.protocol.success import COMMITTER_NAME, DESTINATION, SuccessData, is_committed
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.findings import findings
from ray_committer.report.run_data import StageRow

_ORDER = (
    names.SETUP,
    names.FIND_JOB,
    names.CONNECT_RAY,
    names.START_WORKERS,
    names.LOAD_MANIFESTS,
    names.PREFLIGHT,
    names.SAVE_RECORD,
    names.CREATE_DIRECTORIES,
    names.RENAME_FILES,
    names.SYNC,
    names.VALIDATE,
    names.REMOVE_REPLACED,
    names.COMMIT_POINT,
    names.SAVE_SUCCESS,
    names.CLEANUP,
    names.ABORT,
    names.COMMIT_JOB,
)
_RECOVERED = "a proof that the file does not name"


def report_of_success(data: SuccessData, path: str) -> CommitReport:
    """Return the report for the content of a ``_SUCCESS`` file or summary report at `path`.

    Hadoop's summary reports do not contain the destination; a ``_SUCCESS`` file shows it by its path.
    """
    directory, _, name = path.rpartition("/")
    statistics = data.iostatistics or IOStatistics()
    counters = statistics.counters
    stages = list(_stages(statistics))
    files = counters.get(names.FILES_COMMITTED, 0)
    recovered = counters.get(names.RENAME_RECOVERED, 0)
    diagnostics = data.diagnostics or {}
    report = CommitReport(
        destination=directory if name == SUCCESS else diagnostics.get(DESTINATION, ""),
        job_id=data.job_id or "of unknown id",
        outcome=Outcome.COMMITTED if data.success else Outcome.FAILED,
        committed_anyway=False if data.success else is_committed(data),
        executor=diagnostics.get("executor", ""),
        workers=int(workers) if (workers := diagnostics.get("workers", "")).isdecimal() else 0,
        files=files,
        bytes=counters.get(names.BYTES_COMMITTED, 0),
        moved=files - recovered,
        proved={_RECOVERED: recovered} if recovered else {},
        throttled=counters.get(names.STORE_IO_THROTTLED, 0),
        retries=counters.get(names.STORE_IO_RETRY, 0),
        seconds=_total(stages),
        stage_seconds={row.stage: row.seconds for row in stages},
        stages=stages,
        error=diagnostics.get("exception"),
        source=_source(data, path),
        untold=list(_untold(data, name, statistics, stages)),
    )
    return msgspec.structs.replace(report, findings=findings(report))


def _stages(statistics: IOStatistics) -> Iterator[StageRow]:
    """The stages that ran, in the order of a commit, failed stages included."""
    for stage in _ORDER:
        for suffix, error in (("", None), (".failures", "failed")):
            mean = statistics.meanstatistics.get(f"{stage}{suffix}.mean")
            if mean is not None and mean.samples:
                yield StageRow(stage=stage, seconds=mean.sum / 1000, error=error)


def _total(stages: list[StageRow]) -> float:
    """The seconds of the whole run: of the commit and of what came before it, or else of all stages."""
    # The outer stage contains the others, whose times must not be added once more.
    outer = (*names.BEFORE_COMMIT, names.COMMIT_JOB)
    is_known = any(row.stage == names.COMMIT_JOB for row in stages)
    return sum(row.seconds for row in stages if row.stage in outer or not is_known)


def _source(data: SuccessData, path: str) -> str:
    committer = (data.committer or "an unnamed committer").rpartition(".")[2]
    where = f" on {data.hostname}" if data.hostname else ""
    when = f", {data.date}" if data.date else ""
    return f"{path} ({committer}{where}{when})"


def _untold(
    data: SuccessData, name: str, statistics: IOStatistics, stages: list[StageRow]
) -> Iterator[str]:
    if name != SUCCESS and DESTINATION not in (data.diagnostics or {}):
        yield "the destination that the job wrote to"
    if data.iostatistics is None:
        yield "how many files and bytes there were, and how long it took"
        return
    if names.FILES_COMMITTED not in statistics.counters:
        yield "how many files and bytes the job had"
    if data.success and names.COMMIT_JOB not in {row.stage for row in stages}:
        yield "the time after it was written, so the clean-up and the end of the commit are missing"
    yield "when each stage began: the bars are shown one after the other"
    yield "what each worker did, the files over time, when the store throttled, and lost workers"
    if data.committer != COMMITTER_NAME:
        yield "how many workers there were; Hadoop's committer renames with the driver's threads"
    elif not (data.diagnostics or {}).get("workers"):
        yield "how many workers there were"
    if statistics.counters.get(names.RENAME_RECOVERED):
        yield "how each recovered rename was proved"
