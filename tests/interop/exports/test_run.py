"""Exports by commits: they never change the outcome of a commit, and a notice has the command."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

import ray_committer
from ray_committer.errors import ExportError, JobNotFoundError, shown, why
from ray_committer.protocol.table_paths import DELTA_LOG
from ray_committer.testing import StoreCall
from tests.cli.commands import run
from tests.interop.exports.tables import commit, new_table, rows_of, snapshot_rows
from tests.opening import opening

FILES = {"day=1/a.parquet": [1, 2], "day=2/b.parquet": [3]}


def delta_rows(dest: str) -> list[str]:
    return rows_of(DeltaTable(dest).to_pyarrow_table())


def test_a_commit_exports_the_table(dest: Path):
    table = new_table(dest)
    for number in range(3):
        report = commit(table, {f"day={number}/a.parquet": [number]}, export_delta=True)
        assert report.notices == []
        assert DeltaTable(table).version() == number
    assert delta_rows(table) == snapshot_rows(table)


def test_a_job_that_is_made_from_the_log_exports_the_table(dest: Path):
    table, options = new_table(dest), ray_committer.CommitOptions(export_delta=True)
    for name in ("a", "b"):
        commit(table, {f"day=1/{name}.parquet": [1]}, export_delta=True)
    ray_committer.drop_partition(table, ["day=1"], executor="inline", options=options)
    assert delta_rows(table) == []


def test_an_export_that_fails_is_a_notice_with_the_command(dest: Path):
    table = new_table(dest, {"day": "int"})
    report = commit(table, {"day=x/a.parquet": [1]}, export_delta=True)
    assert report.outcome is ray_committer.Outcome.COMMITTED
    (notice,) = report.notices
    assert notice.startswith(
        f"{table}: the job is committed, but version 4 was not exported to Delta "
        f"({table}/day=x/a.parquet: "
        f"partition column 'day' has type int32, and 'x' is not such a value; "
    )
    command = notice.rpartition("to export it, run: ")[2]
    assert command == f"ray-committer table export-delta {table}"
    done = run(*shlex.split(command)[1:])
    assert done.exit_code == 1
    assert done.stderr.endswith("see: ray-committer explain RC-export-failed\n")


@pytest.mark.parametrize("error", [RuntimeError("a defect"), OSError(5, "the disk"), ImportError("x")])
def test_whatever_an_export_raises_the_job_is_committed(dest: Path, error: Exception):
    def fails(call: StoreCall) -> None:
        if DELTA_LOG in call.paths[0]:
            raise error

    table = new_table(dest)
    with opening(before=fails):
        report = commit(table, FILES, export_delta=True)
    assert report.outcome is ray_committer.Outcome.COMMITTED
    assert shown(why(error)) in report.notices[0]
    ray_committer.export_delta(table)
    assert delta_rows(table) == snapshot_rows(table)


def test_a_destination_without_a_log_is_a_notice(dest: Path):
    report = commit(str(dest), FILES, export_delta=True)
    assert report.outcome is ray_committer.Outcome.COMMITTED
    assert report.notices == [f"{dest}: is not a table with a log, so nothing was exported"]
    with pytest.raises(JobNotFoundError, match="is not a table with a log"):
        ray_committer.export_delta(str(dest))


def test_a_commit_that_is_run_again_exports_what_is_left(dest: Path, monkeypatch: pytest.MonkeyPatch):
    table = new_table(dest)
    options = ray_committer.CommitOptions(export_delta=True, cleanup=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "ray_committer.interop.exports.delta_table", raising=False)
    monkeypatch.delitem(sys.modules, "ray_committer.interop.exports.delta", raising=False)
    report = commit(table, FILES, export_delta=True, cleanup=False)
    assert "install ray-committer[delta]" in report.notices[0]
    with pytest.raises(ExportError, match=r"deltalake.* is not installed, .*; the table .*\[delta\]"):
        ray_committer.export_delta(table)
    monkeypatch.undo()
    again = ray_committer.commit_job(table, report.job_id, executor="inline", options=options)
    assert again.notices == []
    assert delta_rows(table) == snapshot_rows(table)
