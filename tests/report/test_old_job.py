"""Reports of old jobs, from the files that Hadoop's committer and ours leave."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitReport, Outcome
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.report.html import report_html
from ray_committer.report.old_job import report_of_success
from ray_committer.report.text import report_lines
from tests.protocol.test_success import COMMITTED, FAILED_STAGES, MARKERS, REPORTS


def read(path: Path) -> SuccessData:
    data = decode_success(path.read_bytes(), str(path))
    assert data is not None
    return data


def report_of(path: Path) -> CommitReport:
    return report_of_success(read(path), str(path))


@pytest.mark.parametrize("path", [*MARKERS, *REPORTS], ids=lambda path: path.stem)
def test_hadoops_files_become_reports(path: Path):
    report = report_of(path)
    assert (report.files, report.bytes) == COMMITTED[report.job_id]
    failed = FAILED_STAGES.get(report.job_id)
    assert report.outcome is (Outcome.FAILED if failed else Outcome.COMMITTED)
    assert report.source.startswith(f"{path} (ManifestCommitter on driver-host, 2026-")
    assert all(row.began is None for row in report.stages)
    assert ("the destination that the job wrote to" in report.untold) == (report.destination == "")
    assert (report.workers, report.worker_rows, report.throttled_spans) == (0, [], [])
    page, text = report_html(report), "\n".join(report_lines(report))
    for shown in (page, text):
        assert report.job_id in shown
        assert "Nothing unusual happened" not in shown  # nobody knows
        assert "Hadoop" in shown
    assert len(page.encode()) < 200_000


def test_a_failed_job_of_hadoop_says_where_and_with_what():
    (path,) = [path for path in REPORTS if path.stem.endswith("_0009")]
    report = report_of(path)
    assert report.findings[0] == "It failed in the stage rename_files."
    assert report.error is not None
    assert report.error.startswith("java.io.FileNotFoundException: File file:/warehouse/t3/_temporary/")
    assert [row.stage for row in report.stages if row.error] == [
        "job_stage_rename_files",
        "committer_commit_job",
    ]


def test_the_stages_of_a_file_come_in_the_order_of_a_commit():
    (path,) = [path for path in REPORTS if path.stem.endswith("_0007")]
    report = report_of(path)
    assert {row.stage.removeprefix("job_stage_"): row.seconds for row in report.stages} == {
        "setup": 0.074,
        "load_manifests": 0.186,
        "create_target_dirs": 0.057,
        "rename_files": 0.063,
        "optional_validate_output": 0.021,
        "save_success_marker": 0.04,
        "cleanup": 0.021,
        "committer_commit_job": 0.406,
    }
    assert report.seconds == 0.406
    assert not [line for line in report.untold if "end of the commit" in line]


def test_a_marker_does_not_tell_what_came_after_it():
    assert any("the time after it was written" in line for line in report_of(MARKERS[0]).untold)


def test_our_own_file_tells_more(write_job, dest: Path):
    write_job({0: {"p=1/a": "xx", "p=2/b": "y"}})
    fresh = ray_committer.commit_job(str(dest), executor="threads")
    report = report_of(dest / "_SUCCESS")
    assert (report.files, report.bytes, report.moved) == (2, 3, 2)
    assert (report.executor, report.workers) == ("threads", fresh.workers)
    assert report.stage_seconds.keys() < fresh.stage_seconds.keys()
    for stage, seconds in report.stage_seconds.items():
        assert seconds == pytest.approx(fresh.stage_seconds[stage], abs=0.001)
    assert report.destination == str(dest)
    assert report.findings == []
    assert not any("how many workers" in line for line in report.untold)


def test_a_file_without_statistics_says_that_it_knows_nothing():
    report = report_of_success(SuccessData(name="n", timestamp=0), "/t/_SUCCESS")
    assert report.destination == "/t"
    assert report.untold == ["how many files and bytes there were, and how long it took"]
    assert "job of unknown id is committed: /t" in report_lines(report)[0]
    assert "how many files and bytes" in report_html(report)
