"""The Ray Data sink: a dataset's write is one job, and nothing is visible before all of it is there.

Ray Data's own file sinks write in place: if a task fails, the files of the others stay, and an overwrite
deletes before it writes. Here each write task is a task attempt of this package's protocol. Its result
names its manifest, and the driver commits exactly these manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray.data
from ray.data import SaveMode
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.open_job import StorageOptions
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.report.commit_report import CommitReport
from ray_committer.writers import job as arrow_job
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import ArrowJob, WriteMode, write_mode

if TYPE_CHECKING:
    from ray.data.datasource.datasink import WriteResult


class ManifestDatasink(Datasink["CommittedTask | None"]):  # type: ignore[misc]
    """``ds.write_datasink(ManifestDatasink(dest, "parquet", partition_by=["day"]))``.

    format: parquet, csv or json (one line per row), written by pyarrow with `format_options`.
    partition_by: columns that become Hive-style directories, as in Spark.
    mode: append, overwrite (old files are removed after the new ones are in place), overwrite_partitions
        (only in the partitions that this write has rows for), error (fail if data is there),
        error_partitions (only in those partitions) or ignore (write nothing if data is there); Ray
        Data's ``SaveMode`` or its text.
    min_rows_per_file, max_rows_per_file, min_bytes_per_file: as in Ray Data's ``write_parquet``.
    executor: where the commit runs; "auto" uses the Ray of this driver if that pays off.

    `report` is the report of the last commit; None if there was none, because the write was ignored. A
    sink can write one dataset after another.
    """

    def __init__(
        self,
        dest: str,
        format: str = "parquet",  # noqa: A002 - what Spark and Ray Data call it
        *,
        partition_by: Sequence[str] = (),
        mode: str = "append",
        format_options: Mapping[str, Any] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        min_bytes_per_file: int | None = None,
        executor: ExecutorName | CommitPool = "auto",
        options: CommitOptions | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._dest = dest
        self._layout = FileLayout(format, columns, format_options or {}, max_rows_per_file)
        self._mode = _write_mode(mode, self._layout)
        if min_rows_per_file and max_rows_per_file and min_rows_per_file > max_rows_per_file:
            raise ValueError(
                f"min_rows_per_file {min_rows_per_file}: must not be above max_rows_per_file "
                f"{max_rows_per_file}"
            )
        self._min_rows_per_file = min_rows_per_file
        self._min_bytes_per_file = min_bytes_per_file
        self._options = options or CommitOptions()
        self._storage_options = storage_options
        self._executor = executor
        self._job: ArrowJob | None = None
        self._is_ignored = False
        self.report: CommitReport | None = None
        refuse_checkpoints()

    def get_name(self) -> str:
        return "Manifest"

    @property
    def min_rows_per_write(self) -> int | None:
        return self._min_rows_per_file

    @property
    def min_bytes_per_write(self) -> int | None:
        return self._min_bytes_per_file

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """On the driver, before the first write task: check what can be checked, set up the job."""
        refuse_checkpoints()
        if self._job is not None:
            raise RuntimeError(
                f"{self._dest}: this sink is still writing job {self._job.job_id}; use a separate sink "
                f"for each write that runs at the same time"
            )
        self.report = None
        self._start(_of_rows(schema))

    def write(self, blocks: Iterable[Any], ctx: Any) -> CommittedTask | None:
        """In each attempt of a write task: write its rows and save its manifest."""
        refuse_checkpoints()
        if self._is_ignored:
            return None
        if self._job is None:
            raise RuntimeError(f"{self._dest}: this write was not started by its driver")
        return arrow_job.write_attempt(self._job, ctx.task_idx, block_tables(blocks))

    def on_write_complete(self, write_result: WriteResult[CommittedTask | None]) -> None:
        """On the driver, when all write tasks are done: commit the manifests that their results name."""
        if self._job is None and not self._is_ignored:
            self._start()  # Ray Data does not start a write that has no blocks
        if self._job is not None:
            results = write_result.write_returns
            self.report = arrow_job.commit(self._job, results, executor=self._executor)
        self._job, self._is_ignored = None, False

    def on_write_failed(self, error: Exception) -> None:
        """On the driver, also when the commit failed: abort, unless files may be visible already."""
        if self._job is not None:
            arrow_job.abort(self._job, error)
        self._job, self._is_ignored = None, False

    def _start(self, schema: pa.Schema | None = None) -> None:
        self._job = arrow_job.start(
            self._dest,
            self._layout,
            mode=self._mode,
            options=self._options,
            storage_options=self._storage_options,
            schema=schema,
        )
        self._is_ignored = self._job is None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the driver needs and what cannot be sent."""
        return {**self.__dict__, "_executor": None, "report": None}


def _write_mode(mode: str, layout: FileLayout) -> WriteMode:
    """Return our mode; Ray Data's ``CREATE`` is another name of its ``ERROR``."""
    text = mode.value if isinstance(mode, SaveMode) else mode
    return write_mode("error" if text == SaveMode.CREATE.value else text, layout)


def _of_rows(schema: object) -> pa.Schema | None:
    """Return the schema of the rows; None if it is not known. If Ray Data fuses a write with a read, it
    gives the schema of the files to read (``__path``, ``__file_size``) instead."""
    if not isinstance(schema, pa.Schema) or any(name.startswith("__") for name in schema.names):
        return None
    return schema if schema.names else None


def block_tables(blocks: Iterable[Any]) -> Iterator[pa.Table]:
    """Return Ray Data's blocks as Arrow tables."""
    for block in blocks:
        yield BlockAccessor.for_block(block).to_arrow()


def refuse_checkpoints() -> None:
    """Refuse checkpoints: rows that a checkpoint counts as written would be lost with an aborted job."""
    if ray.data.DataContext.get_current().checkpoint_config is not None:
        raise ValueError(
            "Ray Data's checkpoints are on (DataContext.checkpoint_config) and count rows as written "
            "before this write is committed, so a failed write would lose them; set it to None"
        )
