"""What a report says in sentences of what was recorded."""

from __future__ import annotations

import msgspec
import pytest

from ray_committer.events import ShardRenamed
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.statistic_names import COMMIT_JOB, RENAME_FILES
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.findings import findings, stragglers
from ray_committer.report.recording import Recording
from ray_committer.report.run_data import LostWorkerRow, StageRow, WorkerRow
from tests.report.cases import hard, quiet, throttled, worker


def found(**changes: object) -> list[str]:
    return findings(msgspec.structs.replace(quiet(), **changes))


def test_nothing_is_said_where_nothing_happened():
    assert findings(quiet()) == []


def test_throttling_is_told_from_when_to_when_and_what_the_limiter_did():
    assert found(throttled=7, throttled_spans=[throttled(2.0, 4.5, 7, recovered=9.0)]) == [
        "The store throttled from 2.0 s to 4.5 s and refused 7 requests; the limiter went from 4,000 "
        "down to 1,412 requests per second and was back 4.5 s later."
    ]
    assert found(throttled=1, throttled_spans=[throttled(2.0, 2.0, 1, recovered=None)]) == [
        "The store throttled from 2.0 s to 2.0 s and refused 1 request; the limiter went from 4,000 "
        "down to 1,412 requests per second and had come back to 3,100 when the commit ended."
    ]


def test_of_many_spans_the_rest_are_added_up():
    spans = [throttled(10.0 * n, 10.0 * n + 1, 5, recovered=None) for n in range(6)]
    told = found(throttled=30, throttled_spans=spans)
    assert len(told) == 4
    assert told[-1] == "It throttled in 3 more spans, until 51.0 s, and refused 15 requests in them."


def test_throttling_without_a_span_is_told_nevertheless():
    assert found(throttled=3) == ["The store refused 3 requests because there were too many."]


def straggling(rate: float, last: float, *, others: int = 4) -> CommitReport:
    """Workers at 100 files per second until second 13, and one at another rate until `last`."""
    rows = [worker(number, 1000, 10.0, last=13.0) for number in range(others)]
    slow = worker(9, round(rate * 10), 10.0, node="10.4.2.14", last=last)
    seconds = max(13.0, last) - 3.0
    return msgspec.structs.replace(
        quiet(),
        worker_rows=[slow, *rows],
        files_at=[(3.0, 0), (last, 5000)],
        stage_seconds={RENAME_FILES: seconds},
    )


def test_a_straggler_is_named_with_its_place_its_rate_and_its_cost():
    assert findings(straggling(30, 25.0)) == [
        "Worker 9 on 10.4.2.14 ran at 0.3x the median (30 renames per second); at the median the "
        "renames would have ended about 13 s earlier."
    ]


def test_the_cost_of_a_straggler_is_its_tail_and_what_it_did_less_before():
    """Four workers at 100 and one at 0: 10 s of 400 files are 8 s of 500; the tail is 12 s more."""
    (one,) = stragglers(straggling(0.1, 25.0))
    assert one.cost == pytest.approx(2.0 + 12.0, abs=0.1)
    (one,) = stragglers(straggling(0.1, 13.0))
    assert one.cost == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (straggling(60, 25.0), "more than half as fast as the others"),
        (straggling(30, 25.0, others=1), "of two, nobody knows which is the odd one"),
        (
            msgspec.structs.replace(straggling(40, 13.0), files_at=[(12.5, 0), (13.0, 1)]),
            "it cost nothing to speak of",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_is_no_straggler_is_not_blamed(report: CommitReport, why: str):
    assert stragglers(report) == [], why


def test_of_many_stragglers_the_costliest_are_named():
    rows = [worker(number, 1000, 10.0, last=13.0) for number in range(12)]
    rows += [worker(20 + number, 100, 10.0, last=14.0 + number) for number in range(5)]
    told = found(worker_rows=rows, files_at=[(3.0, 0), (19.0, 1)], stage_seconds={RENAME_FILES: 16.0})
    assert [line.partition(" on ")[0] for line in told[:3]] == ["Worker 24", "Worker 23", "Worker 22"]
    assert told[3:] == ["1 more worker was also slow."]


def test_recovered_renames_are_told_by_kind_of_proof():
    told = found(proved={"size only": 1, "etag": 1200}, resumed=True)
    assert told == [
        "1,200 renames were found done (moved by an earlier run), proved by etag, which a rename keeps.",
        "1 rename was found done (moved by an earlier run), proved by size only, which proves little.",
    ]
    assert found(proved={"same file": 2}) == [
        "2 renames were found done (moved, but the answer was lost), proved by the file's identity (one "
        "file under two names)."
    ]


def test_old_files_that_were_kept_are_named():
    assert found(changed=["s3://b/t/a"]) == [
        "1 old file that the job was to replace was changed by another program and kept, so readers see "
        "them beside the new data: look at s3://b/t/a."
    ]
    assert found(changed=[*"abcde"])[0].endswith("look at a, b, c and 2 more.")


def test_lost_workers_are_named_and_what_was_given_to_others():
    rows = [
        LostWorkerRow(worker=f"worker {n}", node="10.4.2.13", process=n, seconds=n, cause="died")
        for n in range(5)
    ]
    assert found(lost_workers=rows[:1], shards_requeued=2) == [
        "1 worker was lost and replaced: worker 0 on 10.4.2.13 after 0.0 s; 2 shards were given to "
        "other workers."
    ]
    assert found(lost_workers=rows, dropped={"lost_workers": 7}, shards_requeued=1) == [
        "12 workers were lost and replaced: worker 0 on 10.4.2.13 after 0.0 s, worker 1 on 10.4.2.13 "
        "after 1.0 s, worker 2 on 10.4.2.13 after 2.0 s and 9 more; 1 shard was given to other "
        "workers."
    ]
    assert found(shards_requeued=1) == ["1 shard had to be repeated."]


def test_retries_are_counted():
    assert found(retries=1) == ["1 request had to be repeated after a failed or missing answer."]


def test_a_failure_says_where_and_how_far():
    stages = [
        StageRow(stage=RENAME_FILES, began=1.0, seconds=2.0, error="no"),
        StageRow(stage=COMMIT_JOB, began=0.0, seconds=3.0, error="no"),
    ]
    assert found(outcome=Outcome.FAILED, stages=stages, moved=400) == [
        "It stopped in the stage rename_files with 400 of 1,000 files in place; everything was kept, "
        "and the same command finishes the commit."
    ]
    assert found(outcome=Outcome.FAILED, stages=[], manifests=0, moved=0) == [
        "It stopped before any file was moved."
    ]
    assert found(outcome=Outcome.FAILED, stages=[], manifests=0, moved=0, resumed=True) == [
        "It stopped before this run moved a file; files of an earlier run are in place."
    ]


def test_the_worst_comes_first():
    starts = [
        "It stopped",
        "1 worker was lost",
        "The store throttled",
        "The store throttled",
        "Worker 2",
    ]
    told = findings(hard())
    assert [line[: len(start)] for line, start in zip(told, starts, strict=False)] == starts


def test_findings_depend_on_nothing_but_what_was_recorded():
    report = hard()
    copy = msgspec.json.decode(msgspec.json.encode(report), type=CommitReport)
    assert findings(copy) == findings(report) == report.findings


def test_a_worker_that_did_nothing_is_no_straggler():
    rows = [worker(number, 1000, 10.0) for number in range(4)]
    idle = WorkerRow(worker="worker 8", node="n", process=1)
    assert found(worker_rows=[idle, *rows]) == []


def test_who_moves_directories_with_few_files_is_no_straggler():
    """Each has made as many renames as the others, of directories with more files or with fewer."""
    recording = Recording()
    for number, files in enumerate((100_000, 100_000, 100_000, 1_000)):
        event = ShardRenamed(f"worker {number}", "n", 7, 50.0, files, files, directories=1_000)
        recording.event(event)
    report = recording.report(CommitResult(destination="/t", job_id="j", outcome=Outcome.COMMITTED))
    assert {row.moves for row in report.worker_rows} == {1_000}
    assert report.findings == []


def test_rights_that_keep_directories_from_going_whole_are_a_finding():
    assert found(by_file={"it is there": 3, "other rights": 9}) == [
        "The files of 9 directories were moved one by one, because tasks make directories with another "
        "owner, group or mode than the commit: run both as one user with one umask."
    ]
    assert found(by_file={"it is there": 3, "not here": 9}) == []
