"""The values of partition columns, as Spark reads them from names of directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.partition_names import escape, partition_name, partition_values, unescape


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("part-0", {}),
        ("day=1/part-0", {"day": "1"}),
        ("year=2024/month=01/part=0", {"year": "2024", "month": "01"}),
        ("other/day=1/more/part-0", {"day": "1"}),
        ("day=__HIVE_DEFAULT_PARTITION__/part-0", {"day": None}),
        ("at=10%3A30%2F1/part-0", {"at": "10:30/1"}),
        ("a%3Db=c=d/part-0", {"a=b": "c=d"}),
        ("day=/=1/part-0", {"day": ""}),
        ("name=%C3%A9é/part-0", {"name": "éé"}),
        ("name=%FF%zz/part-0", {"name": "%FF%zz"}),
    ],
)
def test_directories_name_values(path: str, values: dict[str, str | None]):
    assert partition_values(path) == values


@given(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1))
def test_what_a_writer_escapes_is_read_back(text: str):
    assert unescape(escape(text)) == text
    assert partition_values(f"{partition_name('day', text)}/part-0") == {"day": text}
