"""INSERT INTO and INSERT OVERWRITE, as `statements` describes them."""

from __future__ import annotations

from tests.integration.spark.matrix.place import add
from tests.integration.spark.matrix.statements import (
    BOTH,
    DYNAMIC,
    FILLED,
    INTO,
    MANAGED,
    OVERWRITE,
    PLACED,
    STATIC,
    WHOLE,
    statements,
)

STATEMENTS: dict[str, tuple[str, ...]] = {
    # INSERT INTO
    "INSERT INTO": (*FILLED, INTO),
    "INSERT INTO a managed table": (*MANAGED, INTO),
    "INSERT INTO a table without partitions": (*WHOLE, INTO, INTO),
    "INSERT INTO a partition": (*FILLED, "INSERT INTO {t} PARTITION (p = 1) SELECT id, text FROM more"),
    "INSERT INTO a new partition": (
        *FILLED,
        "INSERT INTO {t} PARTITION (p = 9) SELECT id, text FROM more",
    ),
    "INSERT INTO the partition of null": (
        *FILLED,
        "INSERT INTO {t} PARTITION (p = NULL) SELECT id, text FROM more",
    ),
    "INSERT INTO PARTITION (p)": (*FILLED, "INSERT INTO {t} PARTITION (p) SELECT * FROM more"),
    "INSERT INTO PARTITION (p = 1, q)": (
        *BOTH,
        "INSERT INTO {t} PARTITION (p = 1, q) SELECT id, text, q FROM both",
    ),
    "INSERT INTO PARTITION (p = 1, q = 1)": (
        *BOTH,
        "INSERT INTO {t} PARTITION (p = 1, q = 1) SELECT id, text FROM both",
    ),
    "INSERT INTO a list of columns": (
        *FILLED,
        "INSERT INTO {t} (p, text, id) SELECT p, text, id FROM more",
    ),
    "INSERT INTO BY NAME": (*FILLED, "INSERT INTO {t} BY NAME SELECT p, id, text FROM more"),
    "INSERT INTO VALUES": (*FILLED, "INSERT INTO {t} VALUES (1, 'x', 1), (2, 'y', NULL), (3, 'z', 77)"),
    "INSERT INTO the default of a column": (
        "CREATE TABLE {t} (id BIGINT, text STRING DEFAULT 'none') USING parquet LOCATION '{dest}'",
        "INSERT INTO {t} (id) SELECT id FROM rows",
        "INSERT INTO {t} VALUES (1, DEFAULT)",
    ),
    "INSERT INTO two tables at once": (
        PLACED,
        "CREATE TABLE {t}_2 (id BIGINT, p INT) USING csv LOCATION '{dest}-2'",
        "FROM rows INSERT INTO {t} SELECT id, text, p INSERT INTO {t}_2 SELECT id, p WHERE p = 1",
    ),
    "INSERT INTO of its own rows": (*FILLED, "INSERT INTO {t} SELECT id + 1000, text, p FROM {t}"),
    "INSERT INTO nothing": (*FILLED, "INSERT INTO {t} SELECT * FROM more WHERE id < 0"),
    "INSERT INTO a view of files": (
        *FILLED,
        "CREATE TEMPORARY VIEW files USING parquet OPTIONS (path '{dest}')",
        "INSERT INTO files SELECT * FROM more",
        "DROP VIEW files",
        "REFRESH TABLE {t}",
        "MSCK REPAIR TABLE {t}",
    ),
    "inserts that are refused": (
        *FILLED,
        "refused: INSERT INTO {t} SELECT id FROM more",
        "refused: INSERT INTO {t} SELECT text, id, p, p FROM more",
        "refused: INSERT INTO {t} SELECT text, array(id), p FROM more",
        "refused: INSERT INTO {t} PARTITION (nothing = 1) SELECT id, text FROM more",
        "refused: INSERT INTO {t}_missing SELECT * FROM more",
        "refused: INSERT INTO {t} REPLACE WHERE p = 1 SELECT * FROM more",
        "refused: INSERT INTO {t} VALUES ('x', 'text', 1)",
        "refused: INSERT OVERWRITE {t} SELECT * FROM {t} WHERE p = 1",
        "refused: INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, text FROM {t} WHERE p = 2",
        "refused: DELETE FROM {t} WHERE p = 1",
        "refused: UPDATE {t} SET id = 1",
    ),
    # INSERT OVERWRITE
    "INSERT OVERWRITE": (*FILLED, OVERWRITE),
    "INSERT OVERWRITE of a managed table": (*MANAGED, OVERWRITE),
    "INSERT OVERWRITE of a table without partitions": (*WHOLE, INTO, OVERWRITE),
    "INSERT OVERWRITE of all rows": (*FILLED, "INSERT OVERWRITE {t} SELECT * FROM more"),
    "INSERT OVERWRITE PARTITION (p)": (*FILLED, "INSERT OVERWRITE {t} PARTITION (p) SELECT * FROM more"),
    "INSERT OVERWRITE with nothing": (*FILLED, "INSERT OVERWRITE {t} SELECT * FROM more WHERE id < 0"),
    "INSERT OVERWRITE of a partition": (*FILLED, STATIC),
    "INSERT OVERWRITE of a partition of a managed table": (*MANAGED, STATIC),
    "INSERT OVERWRITE of a new partition": (
        *FILLED,
        "INSERT OVERWRITE {t} PARTITION (p = 9) SELECT id, text FROM more",
    ),
    "INSERT OVERWRITE of a partition with nothing": (
        *FILLED,
        "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, text FROM more WHERE id < 0",
    ),
    "INSERT OVERWRITE of a new partition with nothing": (
        *FILLED,
        "INSERT OVERWRITE {t} PARTITION (p = 9) SELECT id, text FROM more WHERE id < 0",
    ),
    "INSERT OVERWRITE IF NOT EXISTS": (
        *FILLED,
        "INSERT OVERWRITE {t} PARTITION (p = 1) IF NOT EXISTS SELECT id, text FROM more",
        "INSERT OVERWRITE {t} PARTITION (p = 9) IF NOT EXISTS SELECT id, text FROM more",
    ),
    "INSERT OVERWRITE PARTITION (p = 1, q)": (
        *BOTH,
        "INSERT OVERWRITE {t} PARTITION (p = 1, q) SELECT id, text, q FROM both WHERE q = 1",
    ),
    "INSERT OVERWRITE PARTITION (p = 1, q = 1)": (
        *BOTH,
        "INSERT OVERWRITE {t} PARTITION (p = 1, q = 1) SELECT id, text FROM both WHERE q = 1",
    ),
    "INSERT OVERWRITE, dynamic": (*FILLED, DYNAMIC, OVERWRITE),
    "INSERT OVERWRITE, dynamic, of a managed table": (*MANAGED, DYNAMIC, OVERWRITE),
    "INSERT OVERWRITE, dynamic, of the partition of null": (
        *FILLED,
        DYNAMIC,
        "INSERT OVERWRITE {t} SELECT * FROM more WHERE p IS NULL",
    ),
    "INSERT OVERWRITE, dynamic, with nothing": (
        *FILLED,
        DYNAMIC,
        "INSERT OVERWRITE {t} SELECT * FROM more WHERE id < 0",
    ),
    "INSERT OVERWRITE, dynamic, of a table without partitions": (*WHOLE, INTO, DYNAMIC, OVERWRITE),
    "INSERT OVERWRITE, dynamic, PARTITION (p = 1)": (*FILLED, DYNAMIC, STATIC),
    "INSERT OVERWRITE, dynamic, PARTITION (p = 1, q)": (
        *BOTH,
        DYNAMIC,
        "INSERT OVERWRITE {t} PARTITION (p = 1, q) SELECT id, text, q FROM both WHERE q = 1",
    ),
    "INSERT OVERWRITE, dynamic, of its own rows": (
        *FILLED,
        DYNAMIC,
        "INSERT OVERWRITE {t} SELECT id + 1000, text, p FROM {t} WHERE p = 1",
    ),
}
for _name, _texts in STATEMENTS.items():
    add(_name, statements(_texts))
