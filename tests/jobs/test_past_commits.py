"""The past commits of a destination: from reports that many share, from a log, and from the marker."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions
from ray_committer.cli.main import main
from ray_committer.errors import CommitConflictError, RayCommitterError
from ray_committer.jobs import open_job
from ray_committer.jobs.past_commits import PastCommit, past_commits
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.statistic_names import SAVE_SUCCESS
from ray_committer.protocol.success import COMMITTED, DESTINATION, encode_success, new_success_data
from ray_committer.table_jobs.table import init_table
from ray_committer.testing import write_job as write_to
from tests.commits.test_adopted_jobs import opened as opened_s3
from tests.servers.fake_s3 import FakeS3, direct_store

HADOOP = Path(__file__).parents[1] / "data/hadoop/reports"


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path / "reports"


def write(dest: Path, job_id: str, files: dict[str, str], reports: Path | None, **options) -> None:
    """Set up, write and commit a job."""
    ray_committer.setup_job(str(dest), job_id)
    with ray_committer.task_attempt(str(dest), job_id, 0) as attempt:
        for name, text in files.items():
            Path(attempt.path(name)).write_text(text)
    directory = str(reports) if reports else None
    how = CommitOptions(summary_directory=directory, **options)
    ray_committer.commit_job(str(dest), job_id, executor="inline", options=how)


def past(dest: Path, reports: Path | None = None, limit: int = 20) -> list[PastCommit]:
    directory = str(reports) if reports else None
    return past_commits(str(dest), limit=limit, options=CommitOptions(summary_directory=directory))


def test_each_commit_is_a_row_and_the_newest_is_first(dest: Path, reports: Path):
    for number in range(3):
        write(dest, f"job_{number}", {f"{number}": "x" * number}, reports)
    found = past(dest, reports)
    assert [(one.job_id, one.succeeded, one.files, one.bytes) for one in found] == [
        ("job_2", True, 1, 2),
        ("job_1", True, 1, 1),
        ("job_0", True, 1, 0),
    ]
    assert all(one.seconds is not None and one.committer == "ray_committer" for one in found)
    assert found[0].source == f"{reports}/summary-job_2.json"
    assert [one.job_id for one in past(dest, reports, limit=2)] == ["job_2", "job_1"]


def test_a_failed_commit_shows_where_and_why(dest: Path, reports: Path):
    write(dest, "job_1", {"a": "x"}, reports)
    with pytest.raises(RayCommitterError):
        write(dest, "job_2", {"a": "x"}, reports)
    failed, committed = past(dest, reports)
    assert (failed.job_id, failed.succeeded) == ("job_2", False)
    assert failed.stage is not None
    assert "is there already" in str(failed.error)
    assert failed.seconds is not None
    assert (committed.job_id, committed.succeeded, committed.error) == ("job_1", True, None)


@pytest.mark.parametrize(
    ("said", "succeeded", "shown"),
    [
        ("true", True, "job_1: committed, but not to its end, failed in save_success_marker: full"),
        ("unknown", None, "job_1: UNKNOWN whether committed, failed in save_success_marker: full"),
        ("false", False, "job_1: FAILED in save_success_marker: full"),
        (None, False, "job_1: FAILED in save_success_marker: full"),
    ],
)
def test_a_commit_that_failed_is_shown_as_committed_if_it_is(
    dest: Path, reports: Path, said: str | None, succeeded: bool | None, shown: str
):
    dest.mkdir()
    reports.mkdir()
    data = new_success_data(
        job_id="job_1",
        now_milliseconds=1,
        hostname="host",
        success=False,
        stage=SAVE_SUCCESS,
        filenames=[],
        diagnostics={"exception": "full", DESTINATION: str(dest)} | ({COMMITTED: said} if said else {}),
        iostatistics=IOStatistics(),
    )
    (reports / "summary-job_1.json").write_bytes(encode_success(data))
    (found,) = past(dest, reports)
    assert found.succeeded is succeeded
    printed = CliRunner().invoke(main, ["history", str(dest), "--summary-directory", str(reports)])
    assert shown in printed.stdout


def test_reports_of_other_destinations_are_passed_over(dest: Path, tmp_path: Path, reports: Path):
    write(dest, "job_1", {"a": "x"}, reports)
    write(tmp_path / "other", "job_2", {"a": "x"}, reports)
    write(tmp_path / "table_2", "job_3", {"a": "x"}, reports)
    assert [one.job_id for one in past(dest, reports)] == ["job_1"]
    assert [one.job_id for one in past(tmp_path / "other", reports, limit=1)] == ["job_2"]


def test_another_store_gets_no_option_of_the_destination(reports: Path, monkeypatch):
    """It does not know them, and they can be secrets."""
    store, opened = direct_store(FakeS3()), open_job.open_store
    s3_or_real = lambda spec, **_: store if spec.scheme == "s3" else opened(spec)  # noqa: E731
    monkeypatch.setattr(open_job, "open_store", s3_or_real)
    write_to(store, new_job_attempt("/t", "job_1", 0), {0: {"a": b"x"}})
    options = CommitOptions(summary_directory=f"file://{reports}")
    secrets = {"key": "k", "secret": "s"}
    ray_committer.commit_job(
        "s3://bucket/t", "job_1", executor="inline", options=options, storage_options=secrets
    )
    (found,) = past_commits("s3://bucket/t", options=options, storage_options=secrets)
    assert found.source == f"{reports}/summary-job_1.json"


@pytest.mark.parametrize("directory", ["/the reports", "/100%", "/reports"])
def test_a_path_is_on_the_store_of_the_destination_as_it_is(directory: str):
    fake, options = FakeS3(), CommitOptions(summary_directory=directory)
    write_to(direct_store(fake), new_job_attempt("/t", "job_1", 0), {0: {"a": b"x"}})
    with opened_s3(fake):
        ray_committer.commit_job("s3://bucket/t", "job_1", executor="inline", options=options)
        (found,) = past_commits("s3a://bucket/t", options=options)
    assert found.seconds is not None


def test_reports_of_hadoop_count_if_they_name_files_of_the_destination(dest: Path, reports: Path):
    dest.mkdir()
    reports.mkdir()
    for number in ("0007", "0009", "0010"):
        shutil.copy(HADOOP / f"summary-job_202401011200_{number}.json", reports)
    own = reports / "summary-job_202401011200_0007.json"
    assert past(dest, reports) == []
    own.write_text(own.read_text().replace("/warehouse/table%20one/", f"{dest}/"))
    found = past(dest, reports)
    assert [one.job_id for one in found] == ["job_202401011200_0007"]
    assert found[0].committer == "ManifestCommitter"


def test_a_report_that_cannot_be_read_is_a_row_that_says_so(dest: Path, reports: Path):
    write(dest, "job_1", {"a": "x"}, reports)
    (reports / "summary-job_2.json").write_text("{")
    (reports / "summary-job_3.json").touch()
    (reports / "summary-job_4.json.tmp").write_text("{")
    (reports / "notes.json").write_text("{")
    found = past(dest, reports)
    assert {one.source: one.problem is None for one in found} == {
        f"{reports}/summary-job_3.json": False,
        f"{reports}/summary-job_2.json": False,
        f"{reports}/summary-job_1.json": True,
    }
    assert all(one.at_milliseconds for one in found)


def test_without_reports_the_marker_is_the_only_row(dest: Path, reports: Path):
    write(dest, "job_1", {"a": "x"}, None)
    write(dest, "job_2", {"b": "x"}, None)
    for directory in (None, reports):
        (one,) = past(dest, directory)
        assert (one.job_id, one.source, one.seconds) == ("job_2", f"{dest}/_SUCCESS", None)


def test_a_commit_with_a_report_and_a_marker_is_one_row(dest: Path, reports: Path):
    write(dest, "job_1", {"a": "x"}, reports)
    (one,) = past(dest, reports)
    assert one.source == f"{reports}/summary-job_1.json"
    shutil.rmtree(reports)
    (one,) = past(dest, reports)
    assert one.source == f"{dest}/_SUCCESS"


def test_a_report_from_before_the_marker_is_of_an_earlier_job_with_the_same_id(dest, reports: Path):
    write(dest, "nightly", {"a": "x"}, reports)
    time.sleep(0.002)
    write(dest, "nightly", {"b": "x"}, None)
    assert [one.source for one in past(dest, reports)] == [
        f"{dest}/_SUCCESS",
        f"{reports}/summary-nightly.json",
    ]


def test_a_table_has_all_its_commits_and_reports_add_to_them(dest: Path, reports: Path):
    init_table(str(dest))
    for number in range(4):
        write(dest, f"job_{number}", {f"{number}": "x"}, reports if number > 1 else None)
    found = past(dest, reports)
    assert [(one.job_id, one.table_version) for one in found[:4]] == [
        ("job_3", 10),
        ("job_2", 8),
        ("job_1", 6),
        ("job_0", 4),
    ]
    assert str(found[4].job_id).startswith("import-")
    assert len(found) == 5
    assert [one.seconds is not None for one in found] == [True, True, False, False, False]


def test_a_log_that_cannot_be_read_is_a_row_before_those_of_the_reports(dest: Path, reports: Path):
    init_table(str(dest))
    write(dest, "job_1", {"a": "x"}, reports)
    for entry in (dest / "_ray_committer/log").rglob("*.entry"):
        entry.write_text("{")
    log, committed = past(dest, reports)
    assert log.source == f"{dest}/_ray_committer"
    assert "is not a file of a table log" in str(log.problem)
    assert (committed.job_id, committed.table_version) == ("job_1", 4)


def test_a_job_id_that_is_used_again_is_two_commits_of_a_table(dest: Path, reports: Path):
    init_table(str(dest))
    for name in ("a", "b"):
        write(dest, "nightly", {name: "x"}, reports)
    found = past(dest, reports)
    assert [(one.job_id, one.table_version) for one in found[:2]] == [("nightly", 6), ("nightly", 4)]
    assert [one.seconds is not None for one in found[:2]] == [True, False]


def test_the_last_commits_of_a_long_log_cost_few_requests(dest: Path, calls: list[str]):
    init_table(str(dest))
    for number in range(12):
        write(dest, f"job_{number}", {f"{number}": "x"}, None)
    calls.clear()
    assert [one.job_id for one in past(dest, limit=2)] == ["job_11", "job_10"]
    assert len(calls) <= 20


def test_a_commit_behind_many_jobs_that_were_refused_is_found(dest: Path):
    init_table(str(dest))
    write(dest, "job_0", {"a": "x"}, None)
    for number in range(3):
        with pytest.raises(CommitConflictError):
            write(dest, f"job_{number + 1}", {"a": "x"}, None)
        ray_committer.abort_job(str(dest), f"job_{number + 1}")
    (dest / "_SUCCESS").unlink()
    assert len(ray_committer.table_log(str(dest))) >= 10
    assert [one.job_id for one in past(dest, limit=1)] == ["job_0"]


def test_only_as_many_reports_are_read_as_are_shown(dest: Path, reports: Path, calls: list[str]):
    for number in range(9):
        write(dest, f"job_{number}", {f"{number}": "x"}, reports)
        os.utime(reports / f"summary-job_{number}.json", (number, number))
    calls.clear()
    assert [one.job_id for one in past(dest, reports, limit=3)] == ["job_8", "job_7", "job_6"]
    assert calls.count("read") == 5  # three reports, the marker, and the definition of a table
