"""The pinned packages let Spark's own pandas API work, with whose frames users write their tables."""

from __future__ import annotations

import warnings

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_frame_of_pyspark_pandas_is_written_and_committed(
    spark: SparkSession, installation, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")  # else the import sets it for all other tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, of pandas and of an index without a partition
        import pyspark.pandas as ps

        ps.DataFrame({"id": [1, 2, 3]}).to_parquet(str(tmp_path / "t"))
        found = ps.read_parquet(str(tmp_path / "t"))["id"].sum()
    assert found == 6
    assert installation.last_report.files > 0
