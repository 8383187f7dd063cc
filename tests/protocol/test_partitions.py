"""Partitions from the names of directories: which are there, which are gone, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import CatalogTableError
from ray_committer.protocol.partition_names import partition_name
from ray_committer.protocol.partitions import (
    PartitionChanges,
    changes_in,
    common_columns,
    directories_of,
    fitted,
    partition_at,
)


def changes(there: Sequence[str] = (), gone: Sequence[str] = ()) -> PartitionChanges:
    return PartitionChanges(tuple(map(partition_at, there)), tuple(map(partition_at, gone)))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("day=1", (("day", "1"),)),
        ("day=1/hour=02", (("day", "1"), ("hour", "02"))),
        ("at=10%3A30%2F1", (("at", "10:30/1"),)),
        ("a%3Db=c%3Dd", (("a=b", "c=d"),)),
        ("day=__HIVE_DEFAULT_PARTITION__", (("day", "__HIVE_DEFAULT_PARTITION__"),)),
    ],
)
def test_a_directory_names_a_partition(path: str, values: tuple[tuple[str, str], ...]):
    found = partition_at(path)
    assert found.values == values
    assert found.usual_path == path


@pytest.mark.parametrize("path", ["", "day", "=1", "day=", "day=1/x", "x/day=1"])
def test_any_other_directory_is_refused(path: str):
    with pytest.raises(CatalogTableError, match="has data files, but is not the directory of a"):
        partition_at(path)


@pytest.mark.parametrize(
    ("path", "usual"),
    [("Day=1", "day=1"), ("at=10:30", "at=10%3A30"), ("n=%C3%A9", "n=é"), ("d=%2D", "d=-")],
)
def test_a_directory_that_a_catalog_would_name_differently_is_seen(path: str, usual: str):
    assert partition_at(path).usual_path == usual


@pytest.mark.parametrize(
    ("texts", "by_values"),
    [
        (
            [
                "7",
                "0",
                "-7",
                "2024-01-31",
                "true",
                "x7",
                "note",
                "a b",
                "%27",
                "__HIVE_DEFAULT_PARTITION__",
            ],
            True,
        ),
        (["07", "+7", "-0", "7.50", ".5", "1e3", "2024-1-31", "2024-01-31 10%3A30%3A00", " 7"], False),
        (["TRUE", "t", "Yes", "NaN", "-Infinity", "%097"], False),
    ],
)
def test_a_value_that_a_cast_can_change_does_not_find_its_directory(texts: list[str], by_values: bool):
    for text in texts:
        assert partition_at(f"k=x/n={text}").is_found_by_values is by_values, text


@given(
    st.lists(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1))
)
def test_what_spark_and_our_writers_name_is_usual(values: list[str]):
    path = "/".join(partition_name(f"c{number}", value) for number, value in enumerate(values))
    if path:
        assert partition_at(path).usual_path == path
        assert partition_at(path).texts == tuple(values)


def test_hidden_files_do_not_make_a_partition():
    paths = ["day=1/a", "day=1/b", "day=2/_SUCCESS", "_temporary/0/day=3/a", "day=4/.x/a", "_p=1/a", "a"]
    assert directories_of(paths) == {"day=1", "_p=1", ""}


@pytest.mark.parametrize(
    ("touched", "filled", "there", "gone"),
    [
        (["d=1", "d=2"], ["d=1"], ["d=1"], ["d=2"]),
        ([], ["d=1"], ["d=1"], []),
        (["d=1"], ["d=1/h=1"], ["d=1/h=1"], []),
        (["d=1", "d=1/h=1", "d=1/h=2"], ["d=1/h=2"], ["d=1/h=2"], ["d=1/h=1"]),
        (["d=1/h=1", "d=1"], [], [], ["d=1", "d=1/h=1"]),
        (["", "x", "_temporary", "d="], [], [], []),
        (["d=1"], ["d=10"], ["d=10"], ["d=1"]),
    ],
)
def test_a_touched_directory_without_files_is_gone(
    touched: list[str], filled: list[str], there: list[str], gone: list[str]
):
    assert changes_in(touched, filled) == changes(there, gone)


def test_only_what_is_new_must_be_told_again():
    before = changes(["d=1", "d=2"], ["d=3", "d=4"])
    assert changes(["d=1", "d=2"], ["d=3", "d=4"]).after(before).are_none
    assert changes(["d=2", "d=3"], ["d=4"]).after(before) == changes(["d=3"], ["d=1"])
    assert changes(["d=1", "d=2"], ["d=3"]).after(changes()) == changes(["d=1", "d=2"], ["d=3"])


def test_columns_get_the_names_of_the_table():
    found = fitted(changes(["Day=1/hour=2"], ["DAY=2"]), ["day", "Hour"], "db.t")
    assert found.there[0].values == (("day", "1"), ("Hour", "2"))
    assert found.gone[0].values == (("day", "2"),)
    assert found.there[0].path == "Day=1/hour=2"


@pytest.mark.parametrize("columns", [[], ["day"], ["hour", "day"], ["day", "hour", "minute"]])
def test_other_columns_do_not_fit(columns: list[str]):
    named = columns[0] if columns else "none"
    text = rf"day=1/hour=2: does not fit table db\.t, whose partition columns are {named}"
    with pytest.raises(CatalogTableError, match=text):
        fitted(changes(["day=1/hour=2"]), columns, "db.t")


def test_more_columns_than_the_table_has_do_not_fit_either_if_they_are_gone():
    with pytest.raises(CatalogTableError, match="day=1/hour=2: does not fit"):
        fitted(changes(gone=["day=1/hour=2"]), ["day"], "db.t")


def test_all_directories_have_the_same_columns():
    assert common_columns(changes(["d=1/h=1", "d=2/h=1"], ["d=3"])) == ("d", "h")
    assert common_columns(changes()) == ()
    for there, gone in ((["d=1", "d=2/h=1"], []), (["d=1", "e=1"], []), (["d=1"], ["e=1"])):
        with pytest.raises(CatalogTableError, match="have different partition columns"):
            common_columns(changes(there, gone))


@pytest.mark.parametrize("paths", [["day=a%62", "day=ab"], ["Day=1", "day=1"]])
def test_two_directories_with_the_same_values_are_refused(paths: list[str]):
    text = f"{paths[0]} and {paths[1]}: have the same values"
    with pytest.raises(CatalogTableError, match=text):
        fitted(changes(paths), ["day"], "t")
    if paths[1] == "day=ab":
        with pytest.raises(CatalogTableError, match=text):
            common_columns(changes(paths))
    assert fitted(changes(["day=07", "day=7"]), ["day"], "t").there
