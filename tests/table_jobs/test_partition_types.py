"""Declared types of partition columns: those that readers know, and no others."""

from __future__ import annotations

import pytest

from ray_committer.errors import SettingsError
from ray_committer.interop.readers.arrow import arrow_type
from ray_committer.table_jobs.table import TYPES, columns_of

KNOWN = [*TYPES, "long", "Decimal(10, 2)", "decimal(38)", "varchar(5)", "char(1)", "timestamp_ntz"]


@pytest.mark.parametrize("text", KNOWN)
def test_readers_know_each_type(text: str):
    (column,) = columns_of({"day": text})
    assert column.name == "day"
    arrow_type(column.name, column.type)


@pytest.mark.parametrize("text", ["", "text", "decimal", "decimal(39)", "decimal(0)", "varchar", "int("])
def test_another_type_is_refused(text: str):
    with pytest.raises(
        SettingsError, match=r"partition column day=.*: is not a type .* use one of string"
    ):
        columns_of({"day": text})


def test_a_column_has_a_name_and_the_order_stays():
    with pytest.raises(SettingsError, match="partition column =int"):
        columns_of({"": "int"})
    assert [one.name for one in columns_of({"b": "int", "a": "INT"})] == ["b", "a"]
