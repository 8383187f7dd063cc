"""Two stores can hold the same path; what a command shows names the store beside each path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.jobs import open_job
from ray_committer.testing import MemoryStore, run_commit, write_job
from tests.cli.commands import run
from tests.stages.support import JOB

SHOWN = {
    "one": "memory://one/table",
    "two": "memory://two/table",
    "a:secret@two": "memory://a@two/table",
}


@pytest.fixture
def stores(fsspec_stores: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryStore]:
    """Stores with the same path and the same job, by their authority."""
    found = {authority: MemoryStore(authority=authority) for authority in SHOWN}
    for store in found.values():
        write_job(store, JOB, {0: {"p=1/a": b"x"}})
    monkeypatch.setattr(open_job, "open_store", lambda spec, **_: found[spec.authority])
    return found


def plan_as_lines(url: str, page: Path) -> str:
    return run("commit", url, "--dry-run").output


def plan_as_json(url: str, page: Path) -> str:
    return run("commit", url, "--dry-run", "--output", "json").output


def status_as_lines(url: str, page: Path) -> str:
    return run("status", url).output


def success_as_lines(url: str, page: Path) -> str:
    shown = run("show", url).output
    return shown.partition("\n")[0]  # the rest is the content of the file


def success_as_json(url: str, page: Path) -> str:
    return json.loads(run("show", url, "--output", "json").output)["path"]


def success_as_page(url: str, page: Path) -> str:
    assert run("show", url, "--html", str(page)).exit_code == 0
    return page.read_text().replace("</table>", "")  # which looks like the path


PLANS = [plan_as_lines, plan_as_json]
SUCCESSES = [success_as_lines, success_as_json, success_as_page]


@pytest.mark.parametrize("show", [*PLANS, status_as_lines, *SUCCESSES])
def test_each_path_is_shown_with_its_store_and_without_a_password(
    stores: dict[str, MemoryStore], tmp_path: Path, show: Callable[[str, Path], str]
):
    for authority, store in stores.items():
        if show in SUCCESSES:
            run_commit(store, JOB)
        told = show(f"memory://{authority}{JOB.destination}", tmp_path / "page.html")
        assert told.count(JOB.destination) == told.count(SHOWN[authority]) > 0, told
        assert "secret" not in told
