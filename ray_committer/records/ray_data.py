"""The Ray Data sink for a table of a database: a dataset's write is one job and one SQL transaction.

Ray Data's own ``write_sql`` commits in each task: if one fails, the rows of the others stay, and a task
that is repeated doubles its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ray.data import SaveMode
from ray.data.datasource import Datasink

from ray_committer.records.arrow import pa
from ray_committer.records.commit import commit_job
from ray_committer.records.database import parse_database
from ray_committer.records.end import abort_failed
from ray_committer.records.job import RecordJob, start_job, write_mode
from ray_committer.records.report import RecordOutcome, RecordReport
from ray_committer.records.task import RecordAttempt, write_attempt
from ray_committer.writers.ray_data import block_tables, refuse_checkpoints

if TYPE_CHECKING:
    from ray.data.datasource.datasink import WriteResult


class RecordDatasink(Datasink["RecordAttempt | None"]):  # type: ignore[misc]
    """``ds.write_datasink(RecordDatasink("postgresql://host/db", "events"))``.

    table: ``name`` or ``schema.name``; it is made if it is not there.
    mode: append, overwrite, error (fail if the table has rows) or ignore (write nothing then); Ray
        Data's ``SaveMode`` or its text.
    schema: the Arrow schema of the rows. With it, columns are checked before any task runs, and a table
        is made even without rows. Without it, each task checks its rows.

    `report` is the report of the last commit; None if there was none, because the write was ignored. A
    sink can write one dataset after another.
    """

    def __init__(
        self, url: str, table: str, *, mode: str = "append", schema: pa.Schema | None = None
    ) -> None:
        self._url = url
        self._shown = parse_database(url).shown
        self._table = table
        self._mode = _mode(mode)
        self._schema = schema
        self._job: RecordJob | None = None
        self._is_ignored = False
        self.report: RecordReport | None = None
        refuse_checkpoints()

    def get_name(self) -> str:
        return "Record"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:  # noqa: ARG002 - see below
        """On the driver, before the first write task: check what can be checked, open the job. If Ray
        Data fuses a write with what is before it, it gives the schema of another step."""
        refuse_checkpoints()
        if self._job is not None:
            raise RuntimeError(
                f"{self._shown}: this sink is still writing job {self._job.job_id}; use a separate sink "
                f"for each write that runs at the same time"
            )
        self.report = None
        self._start()

    def write(self, blocks: Iterable[Any], ctx: Any) -> RecordAttempt | None:  # noqa: ARG002
        """In each attempt of a write task: write its rows into a staging table."""
        refuse_checkpoints()
        if self._is_ignored:
            return None
        if self._job is None:
            raise RuntimeError(f"{self._shown}: this write was not started by its driver")
        return write_attempt(self._job, block_tables(blocks))

    def on_write_complete(self, write_result: WriteResult[RecordAttempt | None]) -> None:
        """On the driver, when all write tasks are done: commit the attempts that it was given."""
        if self._job is None and not self._is_ignored:
            self._start()  # Ray Data does not start a write that has no blocks
        if self._job is not None:
            report = commit_job(self._job, write_result.write_returns)
            self.report = None if report.outcome is RecordOutcome.IGNORED else report
        self._job, self._is_ignored = None, False

    def on_write_failed(self, error: Exception) -> None:
        """On the driver, also when the commit failed: abort, unless rows may be visible already."""
        if self._job is not None:
            abort_failed(self._job, error)
        self._job, self._is_ignored = None, False

    def _start(self) -> None:
        self._job = start_job(self._url, self._table, mode=self._mode, schema=self._schema)
        self._is_ignored = self._job is None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the driver needs."""
        return {**self.__dict__, "report": None}


def _mode(mode: str) -> str:
    """Return our mode; Ray Data's ``CREATE`` is another name of its ``ERROR``."""
    text = mode.value if isinstance(mode, SaveMode) else mode
    return write_mode("error" if text == SaveMode.CREATE.value else text).value
