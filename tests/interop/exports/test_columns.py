"""Partition columns of exports: the types that Spark gives values, and values as Delta writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ray_committer.interop.exports.columns import inferred, partitioning_of
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_entry import PartitionColumn


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "3000000000"], pa.int64()),
        (["1", "1.5"], pa.float64()),
        (["3000000000", "1.5"], pa.string()),
        (["1", "3000000000", "1.5"], pa.string()),
        (["1.5", "NaN", "-Infinity"], pa.float64()),
        (["1.5", "infinity"], pa.string()),
        (["2024-01-31 10:30:00", "2024-01-31"], pa.timestamp("us")),
        (["2024-01-31T10:30:00"], pa.string()),
        (["1", "2024-01-31"], pa.string()),
        ([None], pa.string()),
    ],
)
def test_a_column_has_the_type_that_spark_infers(texts: list[str | None], expected: pa.DataType):
    """Source: Spark ``PartitioningUtils.inferPartitionColumnValue`` and ``resolveTypeConflicts``."""
    assert inferred(texts) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("decimal(38,18)", "0.000000000000000001", "0.000000000000000001"),
        ("decimal(38,18)", "1E+3", "1000.000000000000000000"),
        ("boolean", "TRUE", "true"),
        ("timestamp", "2024-01-31", "2024-01-31 00:00:00"),
        ("int", "007", "7"),
    ],
)
def test_delta_gets_plain_texts_of_values(kind: str, text: str, expected: str):
    file = ListedFile(f"p={text}/a.parquet", 1, 1)
    assert partitioning_of("/t", [file], [PartitionColumn("p", kind)]).texts(file) == {"p": expected}
