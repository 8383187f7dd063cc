"""Reports to look at: from a quiet commit to one where everything went wrong, under ugly names."""

from __future__ import annotations

import math

import msgspec

from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import Outcome
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.findings import findings
from ray_committer.report.run_data import LostWorkerRow, StageRow, ThrottledRow, WorkerRow

UGLY = "/data/événements <b>&amp;</b>/日本語の表/emoji=😀/" + "a_directory_name_without_any_break_" * 6

_STAGES = (
    (names.LOAD_MANIFESTS, 3.1),
    (names.PREFLIGHT, 0.6),
    (names.SAVE_RECORD, 0.04),
    (names.CREATE_DIRECTORIES, 4.4),
    (names.RENAME_FILES, 61.0),
)


def quiet() -> CommitReport:
    """A commit of four workers in which nothing happened."""
    rows = [worker(number, 250, 5.0 + number / 100) for number in range(4)]
    report = CommitReport(
        destination="/warehouse/table",
        job_id="job_202401011200_0007",
        outcome=Outcome.COMMITTED,
        executor="ray",
        executor_reason="about 1,000 files, Ray is connected",
        dashboard="http://10.0.0.4:8265/#/jobs/04000000",
        workers=4,
        manifests=40,
        files=1000,
        bytes=5 << 30,
        directories=12,
        moved=1000,
        requests=1092,
        seconds=9.2,
        stage_seconds={names.LOAD_MANIFESTS: 0.8, names.RENAME_FILES: 5.1, names.CLEANUP: 0.4},
        stages=[
            StageRow(stage=names.LOAD_MANIFESTS, began=2.0, seconds=0.8),
            StageRow(stage=names.RENAME_FILES, began=3.0, seconds=5.1),
            StageRow(stage=names.CLEANUP, began=8.6, seconds=0.4),
        ],
        files_at=[(3.0 + step / 10, 20 * step) for step in range(51)],
        worker_rows=rows,
        command="ray-committer commit gs://bucket/warehouse/table --job-id job_202401011200_0007",
        started_at="2024-01-01T12:10:03Z",
        ended_at="2024-01-01T12:10:12Z",
        host="driver-0.cluster",
        user="etl",
        versions={"ray_committer": "0.1.0", "Python": "3.11.9", "Ray": "2.60.1"},
        options={"workers": "4", "summary_directory": "gs://reports/2024"},
        links={
            "destination": "/warehouse/table",
            "_SUCCESS": "/warehouse/table/_SUCCESS",
            "summary": "gs://reports/2024/summary-job_202401011200_0007.json",
            "events": "commit.jsonl",
        },
    )
    return with_findings(report)


def hard(workers: int = 200) -> CommitReport:
    """A commit of 200 workers that was throttled, lost some, had a straggler and failed."""
    rows = [worker(number, 9000 + 7 * (number % 13), 60.0) for number in range(3, workers + 2)]
    slow = worker(2, 1800, 60.0, node="ip-10-4-2-14.a-very-long-name.of-a.compute.internal", last=75.0)
    files_at = [(8.1 + at / 4, round(9e3 * (at + 8 * math.sin(at / 9)))) for at in range(240)]
    began, stages = 0.0, []
    for stage, seconds in _STAGES:
        error = "[Errno 13] no permission" if stage == names.RENAME_FILES else None
        stages.append(StageRow(stage=stage, began=began, seconds=seconds, error=error))
        began += seconds
    report = CommitReport(
        destination=UGLY,
        job_id="f84169fe-57ba-4a28-90e8-996ce9ef99da-<script>alert(1)</script>",
        job_attempt=1,
        outcome=Outcome.FAILED,
        executor="ray",
        executor_reason='about 2,400,000 files, "RAY_ADDRESS" is set',
        workers=workers,
        resumed=True,
        manifests=20_000,
        files=2_400_000,
        bytes=3 << 50,
        directories=48_212,
        moved=1_802_412,
        proved={"etag": 12_004, "modification time and size": 3, "size only": 2},
        requests=2_900_113,
        throttled=41_205,
        retries=312,
        lowest_rate=1_412.0,
        seconds=71.0,
        stage_seconds=dict(_STAGES),
        notices=[
            "this store's rename is not known to be safe; <a href='https://example.com'>why</a>",
            "the coordinator of this commit was lost; the manifests are loaded again",
        ],
        error=f"{UGLY}/part-00017: [Errno 13] no permission; grant it and run the same command",
        stages=stages,
        files_at=files_at,
        worker_rows=[slow, *rows],
        throttled_spans=[
            throttled(12.0, 19.4, 30_000, recovered=31.0),
            throttled(44.0, 58.0, 11_205, recovered=None),
        ],
        lost_workers=[
            LostWorkerRow(
                worker="worker 1", node="10.4.2.13", process=812, seconds=33.0, cause="it died"
            )
        ],
        shards_requeued=2,
        command=f"ray-committer commit 'abfss://c@account.dfs.core.windows.net{UGLY}' --job-id f84169fe",
        storage_options=["account_key", "account_name"],
        started_at="2024-01-01T12:10:03Z",
        ended_at="2024-01-01T12:11:14Z",
        host="ip-10-4-2-14.a-very-long-name.of-a.compute.internal",
        user="<b>etl</b>",
        versions={"ray_committer": "0.1.0", "Python": "3.11.9"},
        options={"allowed_roots": UGLY},
        links={"destination": UGLY, "summary": f"{UGLY}/summary"},
    )
    return with_findings(report)


def with_findings(report: CommitReport) -> CommitReport:
    """The report with the findings of what it says."""
    return msgspec.structs.replace(report, findings=findings(report))


def worker(
    number: int,
    files: int,
    busy: float,
    *,
    node: str = "10.4.2.13",
    last: float = 69.0,
    retries: int = 0,
) -> WorkerRow:
    return WorkerRow(
        worker=f"worker {number}",
        node=node,
        process=4000 + number,
        shards=files // 100,
        files=files,
        moves=files,
        bytes=files << 20,
        busy=busy,
        last=last,
        retries=retries,
    )


def throttled(began: float, last: float, refused: int, *, recovered: float | None) -> ThrottledRow:
    return ThrottledRow(
        began=began,
        last=last,
        refused=refused,
        before=4000.0,
        lowest=1412.0,
        end=3100.0,
        recovered=recovered,
    )
