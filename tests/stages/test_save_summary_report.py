"""Summary reports: what they say, on any store, after commits and aborts; they never fail one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    RayCommitterError,
)
from ray_committer.events import Event, Notice
from ray_committer.jobs import open_job
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stages.save_summary_report import save_abort_report, save_summary_report
from ray_committer.testing import WrappedStore, fail_at, run_commit
from tests.cli.commands import run
from tests.stages.support import WHEN, at, context, each_crash, pack_of, record_of, requests, with_job

RECORD = record_of([pack_of(2, 30)])
NAMES = ["memory://test/table/a", "memory://test/table/b"]
REPORTS = CommitOptions(summary_directory="/reports")
REPORT = "/reports/summary-job_1.json"


def report(store, failure: Exception | None = None, options: CommitOptions = REPORTS) -> None:
    save_summary_report(context(store, options), RECORD, NAMES, failure)


def read(path: Path) -> SuccessData:
    found = decode_success(path.read_bytes(), str(path))
    assert found is not None
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_a_summary_report_is_written_whatever_happened(store, write_job, dest, tmp_path, fails: bool):
    job = write_job({0: {"a": "x"}, 1: {"a" if fails else "b": "y"}})
    options = CommitOptions(summary_directory=str(tmp_path / "reports"))
    if fails:
        with pytest.raises(RayCommitterError):
            run_commit(store, job, options)
    else:
        run_commit(store, job, options)
    report = read(tmp_path / "reports" / "summary-job_1.json")
    assert report.success is not fails
    assert report.diagnostics is not None
    assert report.diagnostics["stage"] == ("job_stage_preflight" if fails else "committer_commit_job")
    assert ("exception" in report.diagnostics) is fails


def test_no_report_is_written_where_none_is_asked_for():
    assert requests(with_job(), lambda one: report(one, options=CommitOptions())) == Counter()


def test_a_report_costs_three_requests_and_names_the_failure():
    failure = CommitConflictError("/table/a: is there already")
    store = with_job()
    found = requests(store, lambda one: report(one, failure))
    assert found == Counter(mkdirs=1, write=1, replace=1)
    saved = decode_success(store.read(REPORT), REPORT)
    assert saved is not None
    assert not saved.success
    assert saved.filenames == []
    assert saved.diagnostics is not None
    assert saved.diagnostics["exception"] == "CommitConflictError: /table/a: is there already"


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError, ValueError])
def test_a_report_that_cannot_be_written_is_a_notice(number, when: str, error):
    store = WrappedStore(with_job(), **{when: fail_at(number, error)})
    found = context(store, REPORTS)
    save_summary_report(found, RECORD, NAMES, None)
    (notice,) = found.journal.notices
    assert notice.startswith(f"memory://test{REPORT}: the summary report could not be written: ")
    assert found.journal.summary == ""


def test_after_a_crash_anywhere_the_report_is_written_again():
    for store in each_crash(with_job, report):
        report(store)
        assert [path for path in store.files() if path.startswith("/reports")] == [REPORT]


def test_a_report_can_be_on_another_store_than_the_destination(tmp_path: Path):
    directory = (tmp_path / "a b").as_uri()
    found = context(with_job(), CommitOptions(summary_directory=directory))
    save_summary_report(found, RECORD, NAMES, None)
    assert read(tmp_path / "a b" / "summary-job_1.json").success
    assert found.journal.summary == str(tmp_path / "a b" / "summary-job_1.json")
    assert found.journal.notices == []


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("zip://a/b", "cannot be committed to: nothing can be renamed in an archive"),
        ("nothing://u:secret@h/r", "cannot be committed to: only file://"),
        ("file:///dev/null/reports", "a file is in the way"),
    ],
)
def test_a_commit_whose_report_has_no_place_is_committed_with_a_notice(
    write_job, dest: Path, directory: str, why: str
):
    write_job({0: {"a": "x"}})
    events: list[Event] = []
    found = ray_committer.commit_job(
        str(dest), options=CommitOptions(summary_directory=directory), on_event=events.append
    )
    assert found.outcome is ray_committer.Outcome.COMMITTED
    (notice,) = found.notices
    assert why in notice
    assert "/summary-job_1.json: the summary report could not be written: " in notice
    assert "secret" not in notice
    assert Notice(notice) in events


def test_the_report_of_the_run_has_the_url_of_the_summary(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    options = CommitOptions(summary_directory=(tmp_path / "r").as_uri())
    links = ray_committer.commit_job(str(dest), options=options).links
    assert links["summary"] == str(tmp_path / "r" / "summary-job_1.json")
    assert Path(links["summary"]).exists()


@pytest.mark.parametrize("undo", [False, True])
def test_an_abort_has_a_report(write_job, dest: Path, tmp_path: Path, undo: bool):
    write_job({0: {"a": "x"}})
    if undo:
        ray_committer.record_job(str(dest), executor="inline")
    options = CommitOptions(summary_directory=(tmp_path / "r").as_uri())
    assert ray_committer.abort_job(str(dest), "job_1", undo=undo, options=options)
    found = read(tmp_path / "r" / "summary-job_1.json")
    assert (found.success, found.job_id, found.state) == (False, "job_1", None)
    assert found.diagnostics is not None
    assert found.diagnostics["stage"] == "job_stage_abort"
    assert "exception" not in found.diagnostics
    assert found.iostatistics is not None
    assert found.iostatistics.counters["job_stage_abort"] == 1


def test_the_history_tells_an_abort_from_a_failure(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    where = (tmp_path / "r").as_uri()
    ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(summary_directory=where))
    printed = run("history", str(dest), "--summary-directory", where).stdout
    assert printed.splitlines()[0].endswith("  job_1: aborted")


def test_an_abort_that_fails_has_a_report_with_its_error(
    write_job, dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_job({0: {"a": "x"}})
    opened = open_job.open_store

    def fails_late(*args, **options):
        error = PermissionError(13, "simulated", str(dest))
        return WrappedStore(opened(*args, **options), before=at("move_directory", error))

    monkeypatch.setattr(open_job, "open_store", fails_late)
    options = CommitOptions(summary_directory=(tmp_path / "r").as_uri())
    with pytest.raises(CommitStateUnknownError):
        ray_committer.abort_job(str(dest), options=options)
    found = read(tmp_path / "r" / "summary-job_1.json")
    assert found.diagnostics is not None
    assert "simulated" in found.diagnostics["exception"]


def test_an_abort_that_is_refused_has_no_report(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    options = CommitOptions(summary_directory=str(tmp_path / "r"))
    ray_committer.record_job(str(dest), executor="inline")
    with pytest.raises(CommitRecordExistsError):
        ray_committer.abort_job(str(dest), "job_1", options=options)
    assert not (tmp_path / "r").exists()


def test_an_abort_leaves_the_report_of_the_commit_that_failed():
    store = with_job()
    report(store, CommitConflictError("/table/a: is there already"))
    before = store.read(REPORT)
    save_abort_report(context(store, REPORTS), None)
    assert store.read(REPORT) == before
