"""Tables that are made by a query, or changed between two writes, as `statements` describes them."""

from __future__ import annotations

from tests.integration.spark.matrix.differences import NOTHING_DONE
from tests.integration.spark.matrix.place import add
from tests.integration.spark.matrix.statements import (
    DYNAMIC,
    ELSEWHERE,
    FILLED,
    INSIDE,
    INTO,
    MANAGED,
    OVERWRITE,
    STATIC,
    TABLE,
    statements,
)

STATEMENTS: dict[str, tuple[str, ...]] = {
    # CREATE TABLE AS
    "CREATE TABLE AS": ("CREATE TABLE {t} USING csv AS SELECT * FROM rows", INTO),
    "CREATE TABLE AS, with partitions": (
        "CREATE TABLE {t} USING parquet PARTITIONED BY (p) AS SELECT * FROM rows",
        INTO,
    ),
    "CREATE TABLE AS, with a location": (
        "CREATE TABLE {t} USING orc PARTITIONED BY (p) LOCATION '{dest}' AS SELECT * FROM rows",
        INTO,
    ),
    "CREATE TABLE AS, with options": (
        "CREATE TABLE {t} USING json OPTIONS (compression 'gzip') AS SELECT * FROM rows",
        INTO,
    ),
    "CREATE TABLE AS nothing": ("CREATE TABLE {t} USING parquet AS SELECT * FROM rows WHERE id < 0",),
    "CREATE TABLE IF NOT EXISTS AS": (
        *FILLED,
        "CREATE TABLE IF NOT EXISTS {t} USING parquet AS SELECT * FROM more",
    ),
    "creations that are refused": (
        *FILLED,
        "refused: CREATE TABLE {t} USING parquet AS SELECT * FROM more",
        "refused: CREATE TABLE {t}_2 USING parquet LOCATION '{dest}' AS SELECT * FROM more",
        "refused: CREATE OR REPLACE TABLE {t} USING parquet AS SELECT * FROM more",
        "refused: REPLACE TABLE {t} USING parquet AS SELECT * FROM more",
    ),
    # partitions elsewhere
    "INSERT INTO partitions elsewhere": (*ELSEWHERE, INTO, INTO),
    "INSERT INTO a partition elsewhere": (
        *ELSEWHERE,
        "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM more",
    ),
    "INSERT OVERWRITE of partitions elsewhere": (*ELSEWHERE, INTO, OVERWRITE),
    "INSERT OVERWRITE of a partition elsewhere": (*ELSEWHERE, INTO, STATIC),
    "INSERT OVERWRITE of a missing partition elsewhere": (*ELSEWHERE, STATIC),
    "INSERT OVERWRITE of a partition elsewhere with nothing": (
        *ELSEWHERE,
        INTO,
        "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, text FROM more WHERE id < 0",
    ),
    "INSERT OVERWRITE, dynamic, of partitions elsewhere": (*ELSEWHERE, INTO, DYNAMIC, OVERWRITE),
    "INSERT OVERWRITE, dynamic, beside partitions elsewhere": (
        *ELSEWHERE,
        INTO,
        DYNAMIC,
        "INSERT OVERWRITE {t} SELECT * FROM more WHERE p = 2",
    ),
    "INSERT INTO partitions in another directory of the table": (*INSIDE, INTO, INTO),
    "INSERT OVERWRITE of partitions in another directory of the table": (*INSIDE, INTO, OVERWRITE),
    "INSERT OVERWRITE of a partition in another directory of the table": (*INSIDE, INTO, STATIC),
    "INSERT OVERWRITE, dynamic, of partitions in another directory": (*INSIDE, INTO, DYNAMIC, OVERWRITE),
    "two partitions in one directory": (
        *ELSEWHERE,
        "ALTER TABLE {t} ADD PARTITION (p = 2) LOCATION '{dest}-elsewhere/one'",
        f"refused: {INTO}",
    ),
    "a partition that moved": (
        *FILLED,
        "ALTER TABLE {t} PARTITION (p = 1) SET LOCATION '{dest}-elsewhere/one'",
        INTO,
        STATIC,
    ),
    # other statements, followed by writes
    "TRUNCATE TABLE": (*MANAGED, "TRUNCATE TABLE {t}", INTO),
    "TRUNCATE TABLE PARTITION": (*MANAGED, "TRUNCATE TABLE {t} PARTITION (p = 1)", INTO),
    "ADD PARTITION": (*FILLED, "ALTER TABLE {t} ADD PARTITION (p = 8)", INTO, STATIC),
    "DROP PARTITION": (*FILLED, "ALTER TABLE {t} DROP PARTITION (p = 1)", INTO),
    "DROP PARTITION of a managed table": (*MANAGED, "ALTER TABLE {t} DROP PARTITION (p = 1)", INTO),
    "RENAME PARTITION": (
        *MANAGED,
        "ALTER TABLE {t} PARTITION (p = 1) RENAME TO PARTITION (p = 5)",
        INTO,
    ),
    "RENAME TABLE": (
        *MANAGED,
        "ALTER TABLE {t} RENAME TO {t}_2",
        "INSERT INTO {t}_2 SELECT * FROM more",
        "ALTER TABLE {t}_2 RENAME TO {t}",
    ),
    "SET LOCATION": (*FILLED, "ALTER TABLE {t} SET LOCATION '{dest}-2'", INTO, "MSCK REPAIR TABLE {t}"),
    "ADD COLUMNS": (
        *FILLED,
        "ALTER TABLE {t} ADD COLUMNS (x INT)",
        "INSERT INTO {t} SELECT id, text, 1, p FROM more",
    ),
    "DROP TABLE": (*MANAGED, "DROP TABLE {t}", TABLE, INTO),
    "MSCK REPAIR TABLE": (
        *FILLED,
        "INSERT OVERWRITE DIRECTORY '{dest}/p=8' USING parquet SELECT id, text FROM rows",
        "MSCK REPAIR TABLE {t}",
        INTO,
    ),
    "MSCK REPAIR TABLE after an overwrite": (*FILLED, OVERWRITE, "MSCK REPAIR TABLE {t}"),
    "MSCK REPAIR TABLE after a dynamic overwrite": (
        *FILLED,
        DYNAMIC,
        OVERWRITE,
        "MSCK REPAIR TABLE {t}",
    ),
    "CACHE TABLE": (*FILLED, "CACHE TABLE {t}", INTO, "UNCACHE TABLE {t}"),
    "a table that is not in the metastore's partitions": (
        "SET spark.sql.hive.manageFilesourcePartitions=false",
        *FILLED,
        STATIC,
        DYNAMIC,
        OVERWRITE,
    ),
    # columns
    "partitions of a date": (
        "CREATE TABLE {t} (id BIGINT, day DATE) USING parquet PARTITIONED BY (day) LOCATION '{dest}'",
        "INSERT INTO {t} PARTITION (day = '2026-02-28') SELECT id FROM rows",
        "INSERT OVERWRITE {t} PARTITION (day = DATE'2026-02-28') SELECT id FROM more",
        "INSERT INTO {t} SELECT id, date_add(DATE'2026-02-28', p) FROM rows",
    ),
    "partitions of odd text": (
        "CREATE TABLE {t} (id BIGINT, text STRING) USING orc PARTITIONED BY (text) LOCATION '{dest}'",
        "INSERT INTO {t} SELECT id, text FROM rows",
        "INSERT OVERWRITE {t} PARTITION (text = 'a b%/é日本') SELECT id FROM more",
        "refused: INSERT OVERWRITE {t} PARTITION (text = '') SELECT id FROM more",
        DYNAMIC,
        "INSERT OVERWRITE {t} SELECT id, text FROM more WHERE text = 'x:y=z'",
    ),
    "CHAR and VARCHAR": (
        "CREATE TABLE {t} (id BIGINT, a CHAR(9), b VARCHAR(30)) USING parquet PARTITIONED BY (a) "
        "LOCATION '{dest}'",
        "INSERT INTO {t} SELECT id, text, CAST(p AS STRING) FROM rows WHERE length(text) < 9",
        "INSERT OVERWRITE {t} PARTITION (a = 'plain') SELECT id, text FROM more",
    ),
    "names in another case": (
        "CREATE TABLE {t} (Id BIGINT, Text STRING, P INT) USING parquet PARTITIONED BY (P) "
        "LOCATION '{dest}'",
        "INSERT INTO {t} SELECT * FROM rows",
        STATIC,
        DYNAMIC,
        OVERWRITE,
    ),
    "CLUSTERED BY": (
        "CREATE TABLE {t} (id BIGINT, text STRING, p INT) USING parquet CLUSTERED BY (id) "
        "SORTED BY (text) INTO 3 BUCKETS LOCATION '{dest}'",
        INTO,
        INTO,
        OVERWRITE,
    ),
    "CLUSTERED BY, with partitions": (
        "CREATE TABLE {t} (id BIGINT, text STRING, p INT) USING orc PARTITIONED BY (p) "
        "CLUSTERED BY (id) INTO 2 BUCKETS LOCATION '{dest}'",
        INTO,
        STATIC,
        DYNAMIC,
        OVERWRITE,
    ),
}
for _name, _texts in STATEMENTS.items():
    _differs = (NOTHING_DONE,) if _name == "two partitions in one directory" else ()
    add(_name, statements(_texts), differs=_differs)


DIRECTORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "INSERT OVERWRITE DIRECTORY": (
        "json",
        ("INSERT OVERWRITE DIRECTORY '{dest}' USING json SELECT * FROM rows",) * 2,
    ),
    "INSERT OVERWRITE DIRECTORY with options": (
        "parquet",
        (
            "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{dest}', compression 'gzip') "
            "SELECT * FROM rows",
        ),
    ),
    "INSERT OVERWRITE LOCAL DIRECTORY": (
        "orc",
        ("INSERT OVERWRITE LOCAL DIRECTORY '{dest}' USING orc SELECT * FROM rows",),
    ),
    "INSERT OVERWRITE DIRECTORY of a table": (
        "parquet",
        (*FILLED, "INSERT OVERWRITE DIRECTORY '{dest}' USING parquet SELECT * FROM more"),
    ),
}
for _name, (_format, _texts) in DIRECTORIES.items():
    add(_name, statements(_texts, _format))
