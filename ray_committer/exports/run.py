"""The formats that a table with a log can be exported to, by their names."""

from __future__ import annotations

from ray_committer.errors import ExportError, JobNotFoundError
from ray_committer.exports.result import Exported
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import read_definition


def export_table(store: StoreOperations, table: TablePlaces, name: str) -> Exported:
    """Export a table to the format with a name; idempotent. Its module, and the packages that this
    needs, are imported only here.

    `ExportError` if such a package is not installed, or if the table cannot be exported;
    `JobNotFoundError` if it has no log.
    """
    definition = read_definition(store, table)
    if definition is None:
        raise JobNotFoundError(
            f"{table.destination}: is not a table with a log",
            "make it one with: ray-committer table init DEST",
        )
    try:
        match name:
            case "delta":
                from ray_committer.exports.delta import export_delta

                return export_delta(store, table, definition)
            case "iceberg":
                from ray_committer.exports.iceberg import export_iceberg

                return export_iceberg(store, table, definition)
            case _:
                raise AssertionError(name)
    except ImportError as e:
        raise ExportError(
            f"{table.destination}: {e}",
            f"the table itself is as it was: install ray-committer[{name}], and run the same command",
        ) from e
