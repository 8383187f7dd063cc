"""Write a DataFrame into a table of a database, as one job that this process commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ray_committer.records.arrow import pa
from ray_committer.records.commit import commit_job
from ray_committer.records.end import abort_failed
from ray_committer.records.job import RecordJob, start_job
from ray_committer.records.report import RecordOutcome, RecordReport
from ray_committer.records.task import RecordAttempt, write_attempt
from ray_committer.writers.spark_arrow import arrow_schema, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULT = "attempt string"
"""What each task attempt returns, for Spark: a `RecordAttempt` as JSON."""


def write_records(df: DataFrame, url: str, table: str, *, mode: str = "append") -> RecordReport | None:
    """Write `df` to a table: all of its rows become visible, or none. Return the report of the commit.

    url: ``postgresql://user@host/database`` or ``sqlite:///absolute/path``.
    table: ``name`` or ``schema.name``; it is made if it is not there.
    mode: append, overwrite, error (fail if the table has rows) or ignore (write nothing and return None
        then).

    If the write fails, the job is aborted. If its commit does not get an answer, everything is kept and
    ``ray-committer records commit`` finishes it.
    """
    job = start_job(url, table, mode=mode, schema=arrow_schema(df.schema))
    if job is None:
        return None
    try:
        rows = df.mapInArrow(WriteRecords(job), RESULT).collect()
        report = commit_job(job, [msgspec.json.decode(row.attempt, type=RecordAttempt) for row in rows])
    except BaseException as e:
        abort_failed(job, e)
        raise
    return None if report.outcome is RecordOutcome.IGNORED else report


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """The function that each task attempt runs; it returns one row."""

    job: RecordJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_attempt(self.job, tables(batches))
        yield pa.RecordBatch.from_pylist([{"attempt": msgspec.json.encode(written).decode()}])
