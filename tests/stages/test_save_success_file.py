"""``_SUCCESS`` and the summary report: what they say, and that they are put in place whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import (
    RayCommitterError,
)
from ray_committer.protocol.success import decode_success
from ray_committer.testing import run_commit


def test_the_marker_names_the_job_and_counts_what_was_moved(store, write_job, dest: Path):
    files = {f"f{number:03d}": "xx" for number in range(150)}
    run_commit(store, write_job({0: files, 1: {"g": "y"}}))
    success = decode_success((dest / "_SUCCESS").read_bytes(), "_SUCCESS")
    assert success is not None
    assert success.success
    assert success.job_id == "job_1"
    assert success.filenames is not None
    assert len(success.filenames) == 100
    assert success.iostatistics is not None
    assert success.iostatistics.counters["committer_files_committed"] == 151
    assert success.iostatistics.counters["committer_bytes_committed"] == 301


def test_no_marker_is_written_when_that_is_switched_off(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}, mark_success=False), CommitOptions(mark_success=False))
    assert not (dest / "_SUCCESS").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_a_summary_report_is_written_whatever_happened(store, write_job, dest, tmp_path, fails: bool):
    job = write_job({0: {"a": "x"}, 1: {"a" if fails else "b": "y"}})
    options = CommitOptions(summary_directory=str(tmp_path / "reports"))
    if fails:
        with pytest.raises(RayCommitterError):
            run_commit(store, job, options)
    else:
        run_commit(store, job, options)
    path = tmp_path / "reports" / "summary-job_1.json"
    report = decode_success(path.read_bytes(), str(path))
    assert report is not None
    assert report.success is not fails
    assert report.diagnostics is not None
    assert report.diagnostics["stage"] == ("job_stage_preflight" if fails else "committer_commit_job")
    assert ("exception" in report.diagnostics) is fails
