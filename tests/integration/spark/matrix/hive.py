"""Tables of Hive: by its own writers, and where Spark converts them to its own file sources."""

from __future__ import annotations

from tests.integration.spark.matrix.place import add
from tests.integration.spark.matrix.statements import statements

COLUMNS = "(id BIGINT, text STRING) PARTITIONED BY (p INT)"
WRITES = (
    "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM rows",
    "INSERT OVERWRITE TABLE {t} PARTITION (p) SELECT id, text, p FROM rows WHERE p < 2",
    "INSERT INTO {t} PARTITION (p) SELECT id, text, p FROM more WHERE p >= 0",
)
STORED = {
    "text": "STORED AS TEXTFILE",
    "delimited text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' NULL DEFINED AS '-'",
    "parquet": "STORED AS PARQUET",
    "orc": "STORED AS ORC",
    "avro": "STORED AS AVRO",
    "sequence files": "STORED AS SEQUENCEFILE",
    "rc files": "STORED AS RCFILE",
}
for _name, _stored in STORED.items():
    _create = f"CREATE TABLE {{t}} {COLUMNS} {_stored} LOCATION '{{dest}}'"
    add(f"a table of Hive, {_name}", statements((_create, *WRITES)), hive=True)

TEXT = f"CREATE TABLE {{t}} {COLUMNS} STORED AS TEXTFILE LOCATION '{{dest}}'"
STATEMENTS = {
    "parquet by its own writer": (
        "SET spark.sql.hive.convertMetastoreParquet=false",
        f"CREATE TABLE {{t}} {COLUMNS} STORED AS PARQUET LOCATION '{{dest}}'",
        *WRITES,
    ),
    "a managed table": (f"CREATE TABLE {{t}} {COLUMNS} STORED AS TEXTFILE", *WRITES),
    "without partitions": (
        "CREATE TABLE {t} (id BIGINT, text STRING) STORED AS TEXTFILE LOCATION '{dest}'",
        "INSERT INTO {t} SELECT id, text FROM rows",
        "INSERT INTO {t} SELECT id, text FROM more",
        "INSERT OVERWRITE TABLE {t} SELECT id, text FROM rows WHERE p = 1",
    ),
    "from a query": ("CREATE TABLE {t} STORED AS ORC AS SELECT * FROM rows",),
    "from a query, text": (
        "CREATE TABLE {t} STORED AS TEXTFILE LOCATION '{dest}' AS SELECT * FROM rows",
    ),
    "with a partition elsewhere": (
        TEXT,
        "ALTER TABLE {t} ADD PARTITION (p = 1) LOCATION '{dest}-elsewhere/one'",
        "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM rows",
        "INSERT OVERWRITE TABLE {t} PARTITION (p = 1) SELECT id, text FROM more",
    ),
    "a dynamic overwrite of converted parquet": (
        "SET spark.sql.sources.partitionOverwriteMode=dynamic",
        f"CREATE TABLE {{t}} {COLUMNS} STORED AS PARQUET LOCATION '{{dest}}'",
        "INSERT INTO {t} PARTITION (p) SELECT id, text, p FROM rows WHERE p >= 0",
        "INSERT OVERWRITE TABLE {t} PARTITION (p) SELECT id, text, p FROM more WHERE p = 1",
    ),
    "inserts that are refused": (
        TEXT,
        "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM rows",
        "refused: INSERT INTO {t} PARTITION (p = 1) SELECT id FROM rows",
        "refused: INSERT INTO {t} PARTITION (q = 1) SELECT id, text FROM rows",
        "SET hive.exec.dynamic.partition.mode=strict",
        "refused: INSERT INTO {t} PARTITION (p) SELECT id, text, p FROM rows",
    ),
}
for _name, _all in STATEMENTS.items():
    add(f"a table of Hive, {_name}", statements(_all), hive=True)

DIRECTORY = "DIRECTORY '{dest}' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT id, text FROM rows"
for _words in ("INSERT OVERWRITE", "INSERT OVERWRITE LOCAL"):
    add(f"{_words} DIRECTORY by Hive", statements((f"{_words} {DIRECTORY}",) * 2, "text"), hive=True)
