"""The report names the directories that a job has changed, if its options name a table of a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import ConflictMode
from ray_committer.report.command import MOST_NAMED, catalog_command
from ray_committer.testing import MemoryStore, run_commit, write_job
from tests.stages.support import JOB


def committed(files: Sequence[str], old: Sequence[str] = (), **options: Any) -> CommitResult:
    """A job with these files, in a table with old ones."""
    store = MemoryStore()
    for path in old:
        store.mkdirs(f"/table/{path.rpartition('/')[0]}".rstrip("/"))
        store.write(f"/table/{path}", b"old")
    given = CommitOptions(**{"catalog_table": "db.t", **options})
    write_job(store, JOB, {0: dict.fromkeys(files, b"new")}, mode=given.mode)
    return run_commit(store, JOB, given)


OLD = ("day=1/old", "day=2/old", "_hidden/x")


@pytest.mark.parametrize(
    ("files", "options", "touched"),
    [
        (["day=1/a", "day=3/h=1/a"], {}, ["day=1", "day=3/h=1"]),
        (["a"], {}, []),
        ([], {}, []),
        (["day=1/a"], {"catalog_table": None}, None),
        (["day=1/a"], {"mode": ConflictMode.OVERWRITE_PARTITIONS}, ["day=1"]),
        (["day=3/a"], {"mode": ConflictMode.OVERWRITE}, ["day=1", "day=2", "day=3"]),
        (["day=1/old"], {"mode": ConflictMode.OVERWRITE}, ["day=1", "day=2"]),
    ],
)
def test_new_and_old_directories_are_named(
    files: list[str], options: dict[str, Any], touched: list[str] | None
):
    assert committed(files, OLD, **options).partitions == touched


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "--partition day=1 --partition 'day=it'\"'\"'s'"),
        ({"table_version": 7}, "--since 6"),
        ({"partitions": None}, ""),
        ({"partitions": [f"day={day}" for day in range(MOST_NAMED + 1)]}, ""),
        ({"outcome": Outcome.ALREADY_COMMITTED, "partitions": None}, ""),
    ],
)
def test_a_report_has_the_command_for_the_catalog(changes: dict[str, Any], words: str):
    result = result_of(**changes)
    expected = f"ray-committer partitions /table --table db.t {words}".rstrip()
    assert catalog_command(result, "db.t") == expected
    assert catalog_command(result, None) == ""


@pytest.mark.parametrize(
    "changes", [{"outcome": Outcome.FAILED}, {"outcome": Outcome.RECORDED}, {"partitions": []}]
)
def test_there_is_no_command_if_there_is_nothing_to_tell(changes: dict[str, Any]):
    assert catalog_command(result_of(**changes), "db.t") == ""


def result_of(**changes: Any) -> CommitResult:
    fields: dict[str, Any] = {
        "destination": "/table",
        "job_id": "job_1",
        "outcome": Outcome.COMMITTED,
        "partitions": ["day=1", "day=it's"],
    }
    return CommitResult(**{**fields, **changes})
