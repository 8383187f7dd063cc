"""The statements that tell a catalog of partitions. Spark's parser reads them in tests/integration."""

from __future__ import annotations

import pytest

from ray_committer.errors import SettingsError
from ray_committer.protocol.partition_sql import partition_clause, quoted_table, statements
from ray_committer.protocol.partitions import PartitionChanges, partition_at


def test_a_statement_adds_and_another_drops():
    changes = PartitionChanges(
        (partition_at("day=1/h=a"), partition_at("day=2/h=b")),
        (partition_at("day=3/h=c"), partition_at("day=4")),
    )
    assert list(statements("db.t", changes, lambda one: "gs://b/x" if "h=b" in one.path else None)) == [
        "ALTER TABLE `db`.`t` ADD IF NOT EXISTS\n"
        "  PARTITION (`day`='1', `h`='a')\n"
        "  PARTITION (`day`='2', `h`='b') LOCATION 'gs://b/x';",
        "ALTER TABLE `db`.`t` DROP IF EXISTS\n"
        "  PARTITION (`day`='3', `h`='c'),\n"
        "  PARTITION (`day`='4');",
    ]


@pytest.mark.parametrize(
    ("number", "sizes"), [(0, []), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])]
)
def test_a_statement_has_at_most_100_partitions(number: int, sizes: list[int]):
    some = tuple(partition_at(f"day={day}") for day in range(number))
    for changes in (PartitionChanges(some), PartitionChanges((), some)):
        found = list(statements("t", changes, lambda _: None))
        assert [one.count("PARTITION (") for one in found] == sizes
    everything = "".join(statements("t", PartitionChanges(some), lambda _: None))
    assert all(f"='{day}')" in everything for day in range(number))


@pytest.mark.parametrize(
    ("path", "clause"),
    [
        ("d=it's", r"PARTITION (`d`='it\'s')"),
        ("d=a%5Cb", r"PARTITION (`d`='a\\b')"),
        ("d=a%0Ab%09", r"PARTITION (`d`='a\nb\t')"),
        ("d=${env%3AHOME}", r"PARTITION (`d`='\u0024{env:HOME}')"),
        ("a`b=1", "PARTITION (`a``b`='1')"),
        ("d=日本 %", "PARTITION (`d`='日本 %')"),
        ("d=__HIVE_DEFAULT_PARTITION__", "PARTITION (`d`='__HIVE_DEFAULT_PARTITION__')"),
    ],
)
def test_values_are_escaped(path: str, clause: str):
    assert partition_clause(partition_at(path)) == clause


def test_names_of_tables_are_quoted():
    assert quoted_table("t") == "`t`"
    assert quoted_table("my-db.a`b") == "`my-db`.`a``b`"


@pytest.mark.parametrize("name", ["", "a.", ".a", "a.b.c", " a", "a\n"])
def test_a_name_that_is_none_is_refused(name: str):
    with pytest.raises(SettingsError, match="is not the name of a table in a catalog"):
        quoted_table(name)
