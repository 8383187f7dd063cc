"""What a reader has before a block of the pages, the block with that in its text, and what it leaves."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ray_committer
from ray_committer.table_jobs.table import init_table

SHARED = "/shared"


def printed_in(text: str, scratch: Path, **other: str) -> str:
    """A block as printed, with a scratch directory in the place of the one that all nodes mount."""
    for word, value in {f"{SHARED}/": f"{scratch}/", **other}.items():
        text = text.replace(word, value)
    assert not re.search(rf"(?<![\w/]){SHARED}\b", text)
    return text


def data_files(table: Path) -> list[Path]:
    """The files that a reader of the directory sees."""
    found = (path for path in table.rglob("*") if path.is_file() and path.name[0] not in "._")
    return [path for path in found if "_temporary" not in path.parts]


def write_job(table: Path, job_id: str = "job_1", *, tasks: int = 3) -> None:
    """A job whose tasks have written a file each."""
    ray_committer.setup_job(str(table), job_id)
    for task in range(tasks):
        with ray_committer.task_attempt(str(table), job_id, task) as attempt:
            Path(attempt.path(f"day={task}/part-0.csv")).write_text("a,b\n")


def _nothing(scratch: Path) -> None:
    """A reader has what an empty directory has."""


def _a_job_of_three_tasks(scratch: Path) -> None:
    write_job(scratch / "table")


def _a_recorded_job(scratch: Path) -> None:
    """Recorded by a driver that has ended."""
    table = scratch / "table"
    write_job(table)
    code = f"import ray_committer; ray_committer.record_job({str(table)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def _a_committed_table(scratch: Path) -> None:
    write_job(scratch / "table")
    ray_committer.commit_job(str(scratch / "table"))


def _a_table_with_a_log(scratch: Path) -> None:
    _a_committed_table(scratch)
    init_table(str(scratch / "table"))
    write_job(scratch / "table", "job_2", tasks=4)
    options = ray_committer.CommitOptions(mode=ray_committer.ConflictMode.OVERWRITE)
    ray_committer.commit_job(str(scratch / "table"), options=options)


def _a_table_of_small_files(scratch: Path) -> None:
    """Two jobs have appended to two partitions, at versions 4 and 6."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = scratch / "table"
    table.mkdir()
    init_table(str(table))
    for name in ("a", "b"):
        job = ray_committer.setup_job(str(table))
        with ray_committer.task_attempt(str(table), job, task=0) as attempt:
            for day in (1, 2):
                pq.write_table(pa.table({"x": [day]}), attempt.path(f"day={day}/{name}.parquet"))
        ray_committer.commit_job(str(table), job)


PREPARATIONS: dict[str, Callable[[Path], None]] = {
    "nothing": _nothing,
    "a job of three tasks": _a_job_of_three_tasks,
    "a recorded job": _a_recorded_job,
    "a committed table": _a_committed_table,
    "a table with a log": _a_table_with_a_log,
    "a table of small files": _a_table_of_small_files,
}
