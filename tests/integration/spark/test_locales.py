"""Drivers in locales with other digits (Egypt) and letters (Turkey) write and read as all others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ray_committer import init_table
from tests.integration.spark.jvm import SparkSql, path_with_command

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts"), pytest.mark.timeout(300)]

STATEMENTS = """
CREATE TABLE plain USING parquet PARTITIONED BY (i) AS SELECT id, id % 3 AS i FROM range(30);
INSERT OVERWRITE plain PARTITION (i = 1) SELECT id FROM range(100, 105);
CREATE TABLE logged (id BIGINT, i BIGINT) USING parquet PARTITIONED BY (i) LOCATION '{dest}';
INSERT INTO logged SELECT id, id % 4 FROM range(30);
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE logged SELECT id, 1 FROM range(7);
SELECT 'read', (SELECT count(*) FROM plain), (SELECT count(*) FROM logged);
"""


@pytest.mark.parametrize(("language", "country"), [("ar", "EG"), ("tr", "TR")])
def test_a_driver_of_this_locale_writes_and_reads_tables_with_a_log_and_without(
    tmp_path: Path, language: str, country: str
):
    (tmp_path / "logged").mkdir()
    init_table(str(tmp_path / "logged"))
    options = f"{os.environ['JAVA_TOOL_OPTIONS']} -Duser.language={language} -Duser.country={country}"
    sql = SparkSql(tmp_path, PATH=path_with_command(tmp_path / "bin"), JAVA_TOOL_OPTIONS=options)
    conf = {"spark.sql.extensions": "io.raycommitter.SnapshotExtensions"}
    result = sql.run(STATEMENTS.format(dest=tmp_path / "logged"), conf)
    assert "read\t25\t29" in result.stdout, result.stderr
    for place in (sql.warehouse / "plain", tmp_path / "logged"):
        assert json.loads((place / "_SUCCESS").read_bytes())["committer"] == "ray_committer"
        assert not (place / "_temporary").exists()
