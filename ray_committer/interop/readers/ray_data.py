"""A Ray Data dataset of exactly the files of a snapshot, with the same rows and types as pyarrow's.

Ray Data's own readers take the values of partition columns from the places of files, and as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from ray_committer.errors import TableVersionGoneError, mark
from ray_committer.interop.readers.arrow import FileReader, PlacedFile
from ray_committer.stores.registry import located


class SnapshotSource(Datasource):  # type: ignore[misc]
    """``ray.data.read_datasource(SnapshotSource(reader, files, sizes))``."""

    def __init__(self, reader: FileReader, files: Sequence[PlacedFile], sizes: Sequence[int]) -> None:
        super().__init__()
        self._reader, self._files, self._sizes = reader, files, sizes

    def get_name(self) -> str:
        return "Snapshot"

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(self._sizes)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002 - Ray Data passes it
    ) -> list[ReadTask]:
        return [
            ReadTask(
                _Read(self._reader, self._files[start:end]),
                BlockMetadata(
                    num_rows=None,
                    size_bytes=sum(self._sizes[start:end]),
                    exec_stats=None,
                    input_files=tuple(file.place for file in self._files[start:end]),
                ),
                schema=self._reader.schema,
                per_task_row_limit=per_task_row_limit,
            )
            for start, end in _shares(self._sizes, parallelism)
        ]


@dataclass(frozen=True, slots=True)
class _Read:
    """The work of one task: read some files."""

    reader: FileReader
    files: Sequence[PlacedFile]

    def __call__(self) -> Iterator[pa.Table]:
        try:
            for batch in self.reader.dataset(self.files).to_batches():
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except FileNotFoundError as e:
            raise TableVersionGoneError(
                f"{mark(located(self.reader.spec, self.files[0].place))}: this file, or one of "
                f"{len(self.files)} that are read with it, was removed after the snapshot was taken",
                "nothing was changed: take the snapshot again",
            ) from e


def ray_dataset(
    reader: FileReader, files: Sequence[PlacedFile], sizes: Sequence[int]
) -> ray.data.Dataset:
    """The dataset of some files, read in their order by tasks of about equal size."""
    # One schema for all tasks: each task would else take it from its own first file.
    schema = reader.dataset(files[:1]).schema
    if not files:
        return ray.data.from_arrow(schema.empty_table())
    reader = replace(reader, schema=schema)
    return ray.data.read_datasource(SnapshotSource(reader, files, sizes))


def _shares(sizes: Sequence[int], number: int) -> Iterator[tuple[int, int]]:
    """Cut files into about `number` shares of about equal size."""
    most = -(-sum(sizes) // max(number, 1))
    start, held = 0, 0
    for index, size in enumerate(sizes):
        held += size
        if held >= most or index + 1 == len(sizes):
            yield start, index + 1
            start, held = index + 1, 0
