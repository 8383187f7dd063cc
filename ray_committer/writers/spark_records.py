"""Write a DataFrame into a table of a database, as one job that this process commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ray_committer.errors import SettingsError
from ray_committer.records.arrow import pa
from ray_committer.records.commit import commit_job
from ray_committer.records.job import RecordJob, start_job
from ray_committer.records.report import RecordOutcome, RecordReport
from ray_committer.records.task import RecordAttempt, write_attempt
from ray_committer.writers.records import aborted_on_failure
from ray_committer.writers.spark_arrow import arrow_schema, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULT = "attempt string"
"""What each task attempt returns, for Spark: a `RecordAttempt` as JSON."""


def write_records(df: DataFrame, url: str, table: str | None, *, mode: str) -> RecordReport | None:
    """Write `df` to a table: all of its rows become visible, or none.

    None if the mode is ``ignore`` and the table has rows.
    """
    if not table:
        raise SettingsError("a database needs the name of a table", "specify table=NAME")
    job = start_job(url, table, mode=mode, schema=arrow_schema(df.schema))
    if job is None:
        return None
    with aborted_on_failure(job):
        rows = df.mapInArrow(WriteRecords(job), RESULT).collect()
        report = commit_job(job, [msgspec.json.decode(row.attempt, type=RecordAttempt) for row in rows])
    return None if report.outcome is RecordOutcome.IGNORED else report


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """The function that each task attempt runs; it returns one row."""

    job: RecordJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_attempt(self.job, tables(batches))
        yield pa.RecordBatch.from_pylist([{"attempt": msgspec.json.encode(written).decode()}])
