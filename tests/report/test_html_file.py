"""``--html FILE`` of the commands that have a report."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ray_committer.cli.commit import commit
from ray_committer.cli.main import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_commit_writes_the_page_beside_what_it_prints(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"p=1/a": "x"}})
    file = tmp_path / "report.html"
    result = run("commit", dest, "--assume-complete", "--html", file)
    assert result.exit_code == 0
    assert "job job_1 is committed" in result.stdout
    page = file.read_text()
    assert page.startswith("<!doctype html>")
    assert "Job job_1 is committed" in page
    assert "ray-committer commit" not in page, "nothing is left to do"


def test_a_commit_that_fails_has_its_page_too(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    (dest / "a").write_text("another")
    file = tmp_path / "report.html"
    result = run("commit", dest, "--assume-complete", "--html", file)
    assert result.exit_code != 0
    page = file.read_text()
    assert "is NOT committed" in page
    assert f"{dest}/a" in page
    assert f"ray-committer commit {dest} --job-id job_1" in page


def test_a_page_that_cannot_be_written_does_not_fail_the_commit(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    file = tmp_path / "report.html"
    file.symlink_to("/dev/full")
    result = run("commit", dest, "--assume-complete", "--html", file)
    assert result.exit_code == 0
    assert "report.html: the report could not be written (No space left on device)" in result.stderr
    assert (dest / "a").exists()


def test_a_page_without_a_directory_is_refused_before_the_commit(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    result = run("commit", dest, "--assume-complete", "--html", tmp_path / "missing" / "report.html")
    assert result.exit_code == 2
    assert f"--html: no file can be written into {tmp_path / 'missing'}" in result.stderr
    assert not (dest / "a").exists()


def test_a_page_that_is_there_needs_no_permission_for_its_directory(tmp_path: Path, monkeypatch):
    """As /dev/stdout is."""
    file = tmp_path / "report.html"
    file.touch()
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path) == file)
    html_type = next(option for option in commit.params if option.name == "html_file").type
    assert html_type.convert(str(file), None, None) == str(file)
    with pytest.raises(click.BadParameter, match="no file can be written into"):
        html_type.convert(str(tmp_path / "other.html"), None, None)


def test_show_makes_a_page_of_our_own_old_job(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    assert run("commit", dest, "--assume-complete").exit_code == 0
    file = tmp_path / "report.html"
    assert run("show", dest, "--html", file).exit_code == 0
    assert "Job job_1 is committed" in file.read_text()


def test_an_empty_marker_makes_no_page(tmp_path: Path):
    (tmp_path / "_SUCCESS").write_bytes(b"")
    file = tmp_path / "report.html"
    result = run("show", tmp_path, "--html", file)
    assert result.exit_code == 1
    assert "_SUCCESS: contains no result of a commit, so there is no report" in result.stderr
    assert not file.exists()
