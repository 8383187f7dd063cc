"""An entry leads from its task attempt's directory to where the job may write, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import (
    PreflightError,
)
from ray_committer.testing import run_commit
from tests.stages.manifests import edit, refused, set_dest


def test_a_destination_inside_temporary_or_the_marker_is_refused(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    for name in ("_SUCCESS", "_temporary/other/00/tasks/x"):
        edit(job, 0, set_dest(f"file:{dest}/{name}"))
        assert "the commit itself needs" in str(refused(store, job))


def test_a_name_longer_than_the_store_allows_is_refused(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    edit(job, 0, set_dest(f"file:{dest}/" + "é" * 128))
    assert "longer than the store allows" in str(refused(store, job))


def test_an_allowed_root_outside_the_destination_is_accepted(store, write_job, tmp_path: Path):
    job = write_job({0: {"a": "x"}})
    elsewhere = tmp_path / "elsewhere"
    edit(job, 0, set_dest(f"file:{elsewhere}/p/a"))
    run_commit(store, job, CommitOptions(allowed_roots=(str(elsewhere),)))
    assert (elsewhere / "p" / "a").read_text() == "x"


@pytest.mark.parametrize("outside", ["/elsewhere", "{}/_temporary/other", "{}x"])
def test_a_directory_outside_the_destination_is_not_made(store, write_job, dest: Path, outside: str):
    job = write_job({0: {"a": "x"}})
    path = outside.format(dest)
    edit(job, 0, lambda c: c.update(directories=[{"d": f"file:{path}", "t": 0, "l": 1}]))
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    assert f"{path}: is no directory" in str(error)
