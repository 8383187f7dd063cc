"""The places of a table's log: stable names, in order, none like that of a data file."""

from __future__ import annotations

import pytest

from ray_committer.errors import PathError
from ray_committer.protocol.table_paths import TablePlaces, number_of

TABLE = TablePlaces("/t")


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (1, "000000000000/001.entry"),
        (999, "000000000000/999.entry"),
        (1000, "000000000001/000.entry"),
        (123_456_789, "000000123456/789.entry"),
    ],
)
def test_entries_are_in_directories_of_a_thousand(version: int, path: str):
    assert TABLE.entry(version) == f"/t/_ray_committer/log/{path}"


def test_each_kind_of_file_has_a_place():
    assert TABLE.definition == "/t/_ray_committer/table.entry"
    assert TABLE.file_list("job_1", 2, "abc-n.z") == "/t/_ray_committer/files/job_1-2-abc-n.z"
    assert TABLE.checkpoint(64) == "/t/_ray_committer/checkpoint/64.entry"
    assert TABLE.parts == "/t/_ray_committer/checkpoint/parts"
    assert TABLE.kept(7, "day=1/a.parquet") == "/t/_ray_committer/removed/7/day=1/a.parquet.kept"
    assert TABLE.temporary("n") == "/t/_ray_committer/tmp/n"


@pytest.mark.parametrize(("job_id", "name"), [("..", "a"), ("a/b", "a"), ("a", "../a"), ("a", "")])
def test_a_name_that_leads_elsewhere_is_refused(job_id: str, name: str):
    with pytest.raises(PathError, match="must be a plain name"):
        TABLE.file_list(job_id, 0, name)


@pytest.mark.parametrize(
    ("name", "number"),
    [("007.entry", 7), ("64.entry", 64), ("000000000001", 1), ("parts", None), ("x.entry", None)],
)
def test_only_names_of_the_log_are_numbers(name: str, number: int | None):
    assert number_of(name) == number
