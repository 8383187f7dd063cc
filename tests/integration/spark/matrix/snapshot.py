"""What a case left: rows by directory, schema, files and directories with their permissions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame

from tests.integration.spark.matrix.place import Place, shown

RANDOM = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9a-f]{16}(?=[._-]|$))?|(?<=hive_)\d{4}(-\d\d){2}_\d\d(-\d\d){2}_\d+_\d+"
)
"""What each write has in its names alone: a job's UUID, the token of a task attempt behind it, the time
in a staging directory of Hive."""

Snapshot = dict[str, list[str]]


def snapshot(place: Place, frame: DataFrame | None) -> Snapshot:
    """Everything that is compared, as lines of text."""
    roots = [place.home, *place.home.parent.glob(f"tables/{place.home.name}*")]
    paths = [path for root in roots for path in (root, *root.rglob("*")) if path.exists()]
    files = [path for path in paths if path.is_file()]
    full = {parent for path in files for parent in path.parents}
    rows = [] if frame is None else list(_rows(place, frame))
    return {
        "errors": place.errors,
        "seen": place.seen,
        "rows": rows,
        "schema": [] if frame is None else [frame.schema.json()],
        "files": _listed(place, (path for path in files if path.suffix != ".crc")),
        "checksums": _listed(place, (path for path in files if path.suffix == ".crc")),
        "directories": _listed(place, (path for path in paths if path in full)),
        "empty directories": _listed(
            place, (path for path in paths if path not in full and path.is_dir())
        ),
    }


def _rows(place: Place, frame: DataFrame) -> Iterable[str]:
    """Each row with its directory, and with the values of partitions as Spark reads them."""
    try:
        rows = frame.selectExpr("*", "input_file_name()").collect()
    except Exception as e:  # noqa: BLE001 - compared
        return [shown(e)]
    return (
        f"{_relative(place, Path(unquote(urlsplit(url).path)).parent)}: {tuple(row)}"
        for *row, url in rows
    )


def _listed(place: Place, paths: Iterable[Path]) -> list[str]:
    return sorted(f"{_relative(place, path)} {path.stat().st_mode & 0o7777:04o}" for path in paths)


def _relative(place: Place, path: Path) -> str:
    """A path without what is different for each committer and each write."""
    whole = place.home.parent
    return RANDOM.sub("#", str(path.relative_to(whole) if path.is_relative_to(whole) else path))
