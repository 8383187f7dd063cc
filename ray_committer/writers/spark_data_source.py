"""A Spark 4 data source in Python: ``df.write.format("ray_committer")``, committed by this package.

Spark runs `RayCommitterDataSource.writer`, and later `commit` or `abort`, in its own Python processes
beside the driver, so their settings travel in options. Source: PySpark ``DataSourceArrowWriter``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray_committer.errors import RayNotAvailableError
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.writers import job as arrow_job
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import ArrowJob, WriteMode
from ray_committer.writers.spark_arrow import arrow_schema, partition_id, tables

try:
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
except ImportError as e:
    raise ImportError(
        "Python data sources need Spark 4; with an older Spark, use "
        "ray_committer.writers.spark_arrow.write_transactional"
    ) from e

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS = ("path", "format", "partition_by", "format_options", "storage_options", "ray_address")


class RayCommitterDataSource(DataSource):  # type: ignore[misc]
    """Register it with ``spark.dataSource.register(RayCommitterDataSource)``."""

    @classmethod
    def name(cls) -> str:
        return "ray_committer"

    def writer(self, schema: StructType, overwrite: bool) -> ManifestWriter:
        """Check the options and set up the job, before any task runs."""
        if unknown := sorted(set(self.options) - set(OPTIONS)):
            raise ValueError(f"option {unknown[0]!r}: is not one of {', '.join(OPTIONS)}")
        if not (dest := self.options.get("path")):
            raise ValueError("no destination was given; use save(path), tables are not supported")
        job = arrow_job.start(
            dest,
            _layout(self.options),
            mode=WriteMode.OVERWRITE if overwrite else WriteMode.APPEND,
            options=CommitOptions(),
            storage_options=_mapping(self.options, "storage_options"),
            schema=arrow_schema(schema),
        )
        if job is None:
            raise AssertionError(f"{dest}: only mode 'ignore' starts no job")
        return ManifestWriter(job, self.options.get("ray_address"))


@dataclass(frozen=True, slots=True)
class Saved(WriterCommitMessage):  # type: ignore[misc]
    """The result of a task attempt."""

    task: CommittedTask


class ManifestWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write. Spark sends it to the tasks, and to the process that commits or aborts."""

    def __init__(self, job: ArrowJob, ray_address: str | None) -> None:
        self.job = job
        self.ray_address = ray_address

    def write(self, iterator: Iterable[pa.RecordBatch]) -> Saved:
        """Write the rows of one task attempt; Spark calls this in each attempt."""
        return Saved(arrow_job.write_attempt(self.job, partition_id(), tables(iterator)))

    def commit(self, messages: Sequence[Saved | None]) -> None:
        """Commit the task attempts that Spark counts, on the Ray at `ray_address` or in threads."""
        results = [message.task if message is not None else None for message in messages]
        with _ray(self.ray_address) as executor:
            arrow_job.commit(self.job, results, executor=executor)

    def abort(self, messages: Sequence[Saved | None]) -> None:  # noqa: ARG002 - all attempts end
        """Abort the job. Spark also calls this after a failed commit; then nothing is deleted."""
        arrow_job.abort(self.job)


def _layout(options: Mapping[str, str]) -> FileLayout:
    columns = tuple(filter(None, (name.strip() for name in options.get("partition_by", "").split(","))))
    return FileLayout(options.get("format", "parquet"), columns, _mapping(options, "format_options"))


def _mapping(options: Mapping[str, str], name: str) -> dict[str, Any]:
    """Parse an option that is a JSON object.

    Its keys could not be options of their own: Spark ignores the case of option names.
    """
    try:
        value = json.loads(options.get(name, "{}"))
    except json.JSONDecodeError as e:
        raise ValueError(f"option {name!r}: is not JSON: {e.msg} at character {e.pos}") from None
    if not isinstance(value, dict):
        raise ValueError(f"option {name!r}: is JSON, but not an object")
    return value


@contextmanager
def _ray(address: str | None) -> Iterator[ExecutorName]:
    """Connect this process to the Ray cluster at `address`, if one is given, and disconnect at the end.

    Spark reuses the process.
    """
    if not address:
        yield "threads"
        return
    import ray

    from ray_committer.executors.ray.cluster import NAMESPACE, refuse_dead

    refuse_dead("option 'ray_address': ", address)

    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    except (ConnectionError, RuntimeError) as e:
        hint = (
            "" if "RAY_AUTH_MODE" in os.environ else "; RAY_AUTH_MODE was not set when Spark was started"
        )
        raise RayNotAvailableError(
            f"option 'ray_address': {address}: cannot connect to this Ray cluster: {e}{hint}"
        ) from e
    try:
        yield "ray"
    finally:
        ray.shutdown()
