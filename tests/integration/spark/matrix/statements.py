"""Cases in SQL: a list of statements that are run in order.

`{t}` is the case's table and `{dest}` its directory; `rows` and `more` are rows of the columns `id`,
`text` and `p`, `both` has `q` beside. A statement after "refused:" must fail.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.place import Place, Write

TABLE = "CREATE TABLE {t} (id BIGINT, text STRING, p INT) USING parquet PARTITIONED BY (p)"
PLACED = f"{TABLE} LOCATION '{{dest}}'"
FILLED = (PLACED, "INSERT INTO {t} SELECT * FROM rows")
MANAGED = (TABLE, "INSERT INTO {t} SELECT * FROM rows")
BOTH = (
    "CREATE TABLE {t} (id BIGINT, text STRING, p INT, q INT) USING orc PARTITIONED BY (p, q) "
    "LOCATION '{dest}'",
    "INSERT INTO {t} SELECT id, text, p, q FROM both",
)
WHOLE = ("CREATE TABLE {t} (id BIGINT, text STRING, p INT) USING json LOCATION '{dest}'",)
DYNAMIC = "SET spark.sql.sources.partitionOverwriteMode=dynamic"
ELSEWHERE = (PLACED, "ALTER TABLE {t} ADD PARTITION (p = 1) LOCATION '{dest}-elsewhere/one'")
INSIDE = (PLACED, "ALTER TABLE {t} ADD PARTITION (p = 1) LOCATION '{dest}/other/one'")
INTO = "INSERT INTO {t} SELECT * FROM more"
OVERWRITE = "INSERT OVERWRITE {t} SELECT * FROM more WHERE p = 1"
STATIC = "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, text FROM more WHERE id < 150"


def statements(texts: tuple[str, ...], file_format: str | None = None) -> Write:
    """Run statements; the table is read after, or files if a format is given."""
    settings = [one.removeprefix("SET ").split("=")[0] for one in texts if one.startswith("SET ")]

    def write(place: Place) -> DataFrame | None:
        place.views(*texts)
        try:
            place.sql(*texts)
        finally:
            place.sql(*(f"RESET {key}" for key in settings))
        return place.files(file_format) if file_format else place.read_table()

    return write
