"""Write a DataFrame with Python tasks, as one job that this process commits: no jar and no settings.

``mapInArrow`` gives each task its rows as Arrow batches; the task's result is the name of the manifest
that the task attempt saved. Spark returns the result of one attempt per task; that attempt is committed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.open_job import StorageOptions
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.report.commit_report import CommitReport
from ray_committer.tables.run_session import in_batch, jobs_of_spark
from ray_committer.writers import job as arrow_job
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import ArrowJob, write_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULT = "manifest string, digest string, task_attempt_id string, size long, files long, text binary"
"""What each task attempt returns, for Spark: a `CommittedTask`."""


def write_transactional(
    df: DataFrame,
    dest: str,
    *,
    format: str = "parquet",  # noqa: A002 - what Spark calls it
    partition_by: Sequence[str] = (),
    mode: str = "append",
    format_options: Mapping[str, Any] | None = None,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions | None = None,
    storage_options: StorageOptions | None = None,
) -> CommitReport | None:
    """Write `df` to `dest`: all of it becomes visible, or nothing. Return the report of the commit.

    format: parquet, csv or json (one line per row), written by pyarrow with `format_options`.
    partition_by: columns that become Hive-style directories, as in Spark.
    mode: append, overwrite (old files are removed after the new ones are in place), overwrite_partitions
        (only in the partitions that this write has rows for), error (fail if data is there),
        error_partitions (only in those partitions) or ignore (write nothing and return None if data is
        there).
    executor: where the commit runs; "auto" uses the Ray of this process if that pays off.

    If the write fails, the job is aborted. If its commit fails in the middle, everything is kept and
    ``ray-committer commit DEST`` finishes it.
    """
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    layout = FileLayout(format, columns, format_options or {})
    schema = arrow_schema(df.schema)
    options, session_jobs = _in_session(df, options or CommitOptions())
    job = arrow_job.start(
        dest,
        layout,
        mode=write_mode(mode, layout),
        options=options,
        storage_options=storage_options,
        schema=schema,
    )
    if job is None:
        return None
    with arrow_job.aborted_on_failure(job):
        rows = df.mapInArrow(WriteTask(job), RESULT).collect()
        results = [written_task(row) for row in rows]
        report = arrow_job.commit(job, results, executor=executor)
    if report is not None:
        session_jobs.update({report.job_id, report.committed_by or report.job_id})
    return report


def _in_session(df: DataFrame, options: CommitOptions) -> tuple[CommitOptions, set[str]]:
    """The options of a write in its session of Spark, and the jobs of that session under the run id. A
    Connect session does not show which batch of a stream it works on."""
    spark: Any = df.sparkSession
    if options.run_id is None or not hasattr(spark, "_jsparkSession"):
        return options, set()
    context = spark.sparkContext
    query, number = map(context.getLocalProperty, ("sql.streaming.queryId", "streaming.sql.batchId"))
    session, batch = context.applicationId, ""
    if query is not None and number is not None:
        batch = f"query={query} batch={number}"
        queries = spark._jsparkSession.sharedState().activeStreamingQueries()
        active_query = queries.get(context._jvm.java.util.UUID.fromString(query))
        session = str(active_query.runId()) if active_query is not None else session
    run_id = in_batch(options.run_id, batch) or options.run_id
    jobs = jobs_of_spark(session, batch, run_id)
    return options.changed(run_id=run_id, known_jobs=tuple(jobs)), jobs


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The function that each task attempt runs; it returns one row."""

    job: ArrowJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = arrow_job.write_attempt(self.job, partition_id(), tables(batches))
        types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.binary())
        row = asdict(written)
        yield pa.RecordBatch.from_pylist([row], pa.schema(list(zip(row, types, strict=True))))


def written_task(row: Any) -> CommittedTask:
    """Return the result of a task attempt from the row that Spark collected."""
    fields = row.asDict()
    text = fields.pop("text")
    return CommittedTask(**fields, text=None if text is None else bytes(text))


def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return the batches as tables."""
    return (pa.Table.from_batches([batch]) for batch in batches)


def partition_id() -> int:
    """Return the number of the partition that this Spark task writes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this function runs only in a Spark task")
    return int(context.partitionId())


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, as tasks will see it except for time zones."""
    from pyspark.sql.pandas.types import to_arrow_schema

    newer = "timezone" in inspect.signature(to_arrow_schema).parameters  # and it is required there
    return to_arrow_schema(schema, timezone="UTC") if newer else to_arrow_schema(schema)
