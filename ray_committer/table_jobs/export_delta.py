"""Export a table with a log as a Delta table, from the same files."""

from __future__ import annotations

from ray_committer.interop.exports import run
from ray_committer.interop.exports.result import Exported
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.options import CommitOptions
from ray_committer.protocol.table_paths import TablePlaces

_DEFAULTS = CommitOptions()


def export_delta(
    dest: str, *, options: CommitOptions = _DEFAULTS, storage_options: StorageOptions | None = None
) -> Exported:
    """Export what is new in a table with a log to the Delta table in the same directory; idempotent.

    The first export names all files of the table, and each later one what jobs have changed since. No
    data file is written, and of data files only footers are read. Several processes can
    export a table at once: each version is exported once.

    `ExportError` if the table cannot be exported: the table itself does not change.
    `JobNotFoundError` if `dest` is not a table with a log.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        return run.export_table(store, TablePlaces(destination))
