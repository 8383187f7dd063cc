"""The export of a table, whose module and optional packages are imported only when it runs."""

from __future__ import annotations

from ray_committer.errors import ExportError, JobNotFoundError, mark
from ray_committer.interop.exports.result import Exported
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import read_definition


def export_table(store: StoreOperations, table: TablePlaces) -> Exported:
    """Export a table as a Delta table; idempotent. `ExportError` if a package for it is not installed,
    or if the table cannot be exported; `JobNotFoundError` if it has no log."""
    definition = read_definition(store, table)
    if definition is None:
        raise JobNotFoundError(
            f"{mark(table.destination)}: is not a table with a log",
            "make it one with: ray-committer table init DEST",
        )
    try:
        from ray_committer.interop.exports.delta import export_delta

        return export_delta(store, table, definition)
    except ImportError as e:
        raise ExportError(
            f"{mark(table.destination)}: {e}",
            "the table itself is as it was: install ray-committer[delta], and run the same command",
        ) from e
