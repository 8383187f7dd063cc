"""The report in a terminal of 80 columns, and as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ray_committer import CommitOptions, CommitReport, Outcome
from ray_committer.options import CommittedTask
from ray_committer.protocol.record import ConflictMode
from ray_committer.report.amounts import short_seconds
from ray_committer.report.command import repeat_command
from ray_committer.report.text import (
    WIDTH,
    report_json,
    report_lines,
    six_numbers,
    stage_seconds,
    verdict_line,
)
from tests.report.cases import hard, quiet, with_findings

FAILED = {"outcome": Outcome.FAILED, "moved": 10, "proved": {"etag": 2}}

QUIET = """\
job job_202401011200_0007 is committed: /warehouse/table

  files                 bytes                 time
  1,000                 5.4 GB                9.20 s
  files per second      workers               requests
  196                   4 (on ray)            1,092
  1,000 files, 5,368,709,120 bytes, from 40 task manifests, into 12 leaf
  directories
  1,000 moved now, on ray: about 1,000 files, Ray is connected
  Ray shows its driver at http://10.0.0.4:8265/#/jobs/04000000

  load_manifests                 0.800 s  ##
  rename_files                   5.100 s  ################
  cleanup                        0.400 s  #
  other                          2.900 s  #########
  total                          9.200 s  ############################

  from 2024-01-01 12:10:03 UTC to 2024-01-01 12:10:12 UTC, on driver-0.cluster,
  by etl
  ray_committer 0.1.0, Python 3.11.9, Ray 2.60.1
  options: workers=4; summary_directory=gs://reports/2024
  _SUCCESS: /warehouse/table/_SUCCESS
  summary: gs://reports/2024/summary-job_202401011200_0007.json
  events: commit.jsonl

committed: job job_202401011200_0007, 1,000 files, 5.4 GB, in 9.20 s\
"""


def test_a_quiet_commit_is_told_in_few_lines():
    assert str(quiet()) == QUIET


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "committed: job j, 1,000 files, 5.4 GB, in 9.20 s"),
        ({"outcome": Outcome.RECORDED}, "recorded: job j, 1,000 files, 5.4 GB, in 9.20 s"),
        ({"outcome": Outcome.ALREADY_COMMITTED}, "already committed: job j"),
        (FAILED, "NOT committed: job j, 12 of 1,000 files in place, after 9.20 s"),
        (
            {**FAILED, "committed_anyway": None},
            "UNKNOWN whether committed: job j, 12 of 1,000 files in place, after 9.20 s",
        ),
        (
            {**FAILED, "committed_anyway": True},
            "committed, but not to its end: job j, 12 of 1,000 files in place, after 9.20 s",
        ),
        ({**FAILED, "manifests": 0}, "NOT committed: job j, after 9.20 s"),
    ],
)
def test_the_verdict_is_one_line(changes: dict[str, Any], expected: str):
    assert verdict_line(msgspec.structs.replace(quiet(), job_id="j", **changes)) == expected


def test_the_stages_add_up():
    rows = stage_seconds(quiet())
    assert rows[-1] == ("total", 9.2)
    assert sum(seconds for _, seconds in rows[:-1]) == pytest.approx(9.2)
    assert stage_seconds(msgspec.structs.replace(quiet(), seconds=0.0))[-1][0] == "cleanup"


def test_a_commit_to_a_table_names_its_version():
    assert not any("of the table" in line for line in report_lines(quiet()))
    report = msgspec.structs.replace(quiet(), table_version=1234)
    assert "  version 1,234 of the table" in report_lines(report)
    assert "  version 1,234 of the table" in report_lines(report)


def test_lines_fit_into_80_columns_but_for_paths_and_commands():
    report = msgspec.structs.replace(
        hard(),
        destination="/t",
        job_id="j",
        error="short",
        command="ray-committer commit /t",
        source="/t/_SUCCESS (ManifestCommitter on a host, at a time of a day that is long ago by now)",
        untold=["what each worker did, the rate over time, when the store throttled, and lost workers"],
        options={},
        links={},
    )
    lines = report_lines(report)
    assert [line for line in lines if len(line) > WIDTH] == []
    joined = " ".join(" ".join(lines).split())
    for finding in report.findings:
        assert f"* {finding}" in joined


def test_a_recorded_job_shows_what_commits_it():
    lines = report_lines(msgspec.structs.replace(quiet(), outcome=Outcome.RECORDED))
    assert lines[-1].startswith("  commit it: ray-committer commit ")


def test_a_job_whose_clean_up_has_failed_shows_what_finishes_it():
    lines = report_lines(msgspec.structs.replace(quiet(), error="denied"))
    assert lines[-1].startswith("  run it again: ray-committer commit ")


def test_a_failed_commit_says_so_first_and_how_to_go_on_last():
    lines = report_lines(hard())
    assert "is NOT committed" in lines[0]
    assert any(line.startswith("  run it again: ray-committer commit ") for line in lines[-2:])
    assert lines[-1] == "  with your values of -o account_key, -o account_name"


def test_json_tells_everything_and_can_be_read_back():
    report = hard()
    told = json.loads(report_json(report))
    assert told["worker_rows"][0]["files_per_second"] == 30.0
    assert told["findings"] == report.findings
    assert msgspec.json.decode(report_json(report), type=CommitReport) == report


def test_what_is_not_known_is_not_a_zero():
    report = CommitReport(destination="/t", job_id="j", outcome=Outcome.COMMITTED, files=3)
    values = {label: value for label, value, _ in six_numbers(report)}
    assert values == {
        "files": "3",
        "bytes": "0 bytes",
        "time": "-",
        "files per second": "-",
        "workers": "-",
        "requests": "-",
    }


def test_seconds_have_the_digits_that_matter():
    assert [short_seconds(s) for s in (0.004, 9.994, 9.996, 61.04, 125.4, 7265)] == [
        "0.00 s",
        "9.99 s",
        "10.0 s",
        "61.0 s",
        "2 min 5 s",
        "2 h 1 min",
    ]


def test_many_notices_do_not_bury_the_report():
    lines = report_lines(msgspec.structs.replace(quiet(), notices=["n"] * 1000))
    assert len(lines) < 50
    assert "  note: and 980 more, in the JSON report" in lines


def test_findings_stand_between_the_numbers_and_the_stages():
    lines = report_lines(with_findings(msgspec.structs.replace(quiet(), retries=3)))
    assert lines.index("  * 3 requests had to be repeated after a failed or missing answer.") < next(
        number for number, line in enumerate(lines) if "load_manifests" in line
    )


def test_the_command_can_be_pasted_into_a_shell():
    url = "gs://bucket/it's a table"
    done = msgspec.structs.replace(quiet(), destination=url, job_id="a b", job_attempt=2)
    assert repeat_command(done, CommitOptions(durable=True)) == (
        "ray-committer commit 'gs://bucket/it'\"'\"'s a table' --job-id 'a b' --attempt 2 "
        "--executor ray --durable"
    )


def test_the_command_says_again_what_becomes_of_old_data():
    options = CommitOptions(
        mode=ConflictMode.OVERWRITE, replaced_roots=("p=1", "p=2"), allowed_roots=("/other",)
    )
    assert repeat_command(quiet(), options).endswith(
        " --mode overwrite --replace p=1 --replace p=2 --allowed-root /other"
    )
    partitions = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS)
    assert repeat_command(quiet(), partitions).endswith(" --mode overwrite_partitions")


def test_the_command_of_a_job_without_a_record_says_again_that_it_is_complete():
    lost = CommitReport(destination="/t", job_id="j", outcome=Outcome.FAILED)
    tasks = (CommittedTask("m", "d", None),) * 3
    for options, words in (
        (CommitOptions(), "--assume-complete"),
        (CommitOptions(expected_tasks=0), "--expect-tasks 0"),
        (CommitOptions(committed_tasks=tasks), "--expect-tasks 3"),
    ):
        assert repeat_command(lost, options) == f"ray-committer commit /t --job-id j {words}"
    supersede = CommitOptions(unfinished="supersede")
    assert repeat_command(lost, supersede).endswith(" --assume-complete --unfinished supersede")
    assert "--unfinished" not in repeat_command(quiet(), supersede)
    assert "--assume" not in repeat_command(quiet(), CommitOptions())
