"""What the tests of exports share: tables of Parquet files, their commits, and their rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ray_committer
from ray_committer.interop.exports.result import Exported
from ray_committer.interop.exports.run import export_table
from ray_committer.protocol.table_entry import PartitionColumn, TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.make_table import make_table

Rows = Mapping[str, Sequence[Any] | pa.Table]
"""The values of column x, or a table, of each file."""


def new_table(dest: Path, types: Mapping[str, str] | None = None) -> str:
    """A table without files, with partition columns of these types."""
    dest.mkdir(parents=True)
    columns = [PartitionColumn(*one) for one in (types or {}).items()]
    definition = TableDefinition(
        table_id=str(uuid.uuid4()), partition_columns=columns, created_milliseconds=1
    )
    make_table(LocalStore(StoreSpec("file")), TablePlaces(str(dest)), definition, 1)
    return str(dest)


def commit(dest: str, files: Rows, mode: str = "append", **options: Any) -> ray_committer.CommitReport:
    """Commit a job that writes Parquet files."""
    how = ray_committer.CommitOptions(mode=ray_committer.ConflictMode(mode), **options)
    job = ray_committer.setup_job(dest, options=how)
    with ray_committer.task_attempt(dest, job, task=0) as attempt:
        for path, values in files.items():
            with attempt.open(path) as file:
                pq.write_table(values if isinstance(values, pa.Table) else pa.table({"x": values}), file)
    return ray_committer.commit_job(dest, job, executor="inline", options=how)


def export(dest: str, store: StoreOperations | None = None) -> Exported:
    return export_table(store or LocalStore(StoreSpec("file")), TablePlaces(dest))


def rows_of(table: pa.Table) -> list[str]:
    """The rows of a table, whatever the order of rows and columns."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


def snapshot_rows(dest: str) -> list[str]:
    return rows_of(ray_committer.snapshot(dest).dataset().to_table())
