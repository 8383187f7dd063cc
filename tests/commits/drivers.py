"""A driver of many that write to one table: it runs planned jobs, and can be killed at any time.

It notes what it does in a journal. If it is started again, it continues with the job that it was at, by
the same command.
"""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ray_committer import (
    CommitOptions,
    ConflictMode,
    abort_job,
    commit_job,
    commit_pool,
    drop_partition,
    history,
    list_jobs,
    setup_job,
    snapshot,
    task_attempt,
    undo_version,
)
from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitStateUnknownError,
    JobNotFoundError,
    PathError,
    TableVersionGoneError,
)
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName

Row = tuple[int, int, str, int, str]
"""The day and the hour, which make the partition; the job that wrote it; its number there; a value."""

HOURS = 2
MOST_RUNS = 1_000
"""A job that has not ended after so many runs never will."""
NO_JOB = -1
MADE_FROM_LOG = ("drop-", "undo-")
COLUMNS = ("day", "hour", "writer", "number", "value")
KINDS = {
    "append": 6,
    "partitions": 2,  # an overwrite of the partitions that it writes to
    "day": 2,  # an overwrite of one day
    "table": 0.2,
    "create": 1,
    "derive": 2,  # an overwrite of one day by what was read there
    "read": 2,  # an append of what was read in another day
    "drop": 1,
    "undo": 2,
}
_SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64()), ("value", pa.string())])
_MODES = {
    "partitions": ConflictMode.OVERWRITE_PARTITIONS,
    "day": ConflictMode.OVERWRITE,
    "table": ConflictMode.OVERWRITE,
    "derive": ConflictMode.OVERWRITE,
    "create": ConflictMode.ERROR_PARTITIONS,
}


@dataclass(frozen=True)
class Planned:
    """A job of a driver: the `hours` that it writes to, and the `day` that it reads, replaces
    or drops."""

    number: int
    kind: str
    hours: tuple[str, ...]
    day: str
    fixed_names: bool
    keeps: bool
    finishes: bool
    wait_seconds: float


@dataclass(frozen=True)
class Drive:
    """What a driver is started with.

    ray: the address of a Ray cluster, and the name of a shared pool there; without a name the driver has
        a pool of its own.
    beside: journals of readers; a job begins after each of them has grown since the last one.
    """

    dest: str
    directory: Path
    number: int
    drivers: int
    jobs: int
    seed: int
    ray: str | None = None
    pool: str | None = None
    beside: tuple[Path, ...] = ()


class Journal:
    """Lines that a process has noted; one that it was killed at does not count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        self._size = len(whole)

    def put(self, **line: Any) -> None:
        with self._path.open("ab") as file:
            file.truncate(self._size)
            self._size += file.write(json.dumps(line).encode() + b"\n")
        self.lines.append(line)

    def last(self, number: int) -> dict[str, Any] | None:
        return next((line for line in reversed(self.lines) if line.get("number") == number), None)


def planned_jobs(drive: Drive) -> Iterator[Planned]:
    """The jobs of a driver, always the same."""
    chance = random.Random(f"{drive.seed} {drive.number}")
    for number in range(drive.jobs):
        (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
        days = [0, drive.number, chance.randrange(drive.drivers)]  # many meet at the first day
        day = f"day={chance.choice(days)}"
        hours = [f"day={chance.choice(days)}/hour={chance.randrange(HOURS)}" for _ in range(2)]
        if kind in ("day", "derive"):
            hours = [f"{day}/hour={chance.randrange(HOURS)}"]
        yield Planned(
            number,
            kind,
            tuple(sorted(set(hours))),
            day,
            fixed_names=kind == "day" and day == "day=0",
            keeps=chance.random() < 0.6,
            finishes=chance.random() < 0.7,
            wait_seconds=chance.choice([1.0, 60.0, 600.0]),
        )


def drive(work: Drive) -> None:
    """The whole life of a driver process."""
    with reported_errors(work.directory), _executor(work) as executor:
        _Driver(work, executor).run()


@contextmanager
def reported_errors(directory: Path) -> Iterator[None]:
    """Leave the error of a process where its test finds it."""
    try:
        yield
    except BaseException:
        (directory / "error").write_text(traceback.format_exc())
        raise


@contextmanager
def _executor(work: Drive) -> Iterator[ExecutorName | CommitPool]:
    if work.ray is None:
        yield "threads"
        return
    import ray

    from ray_committer.executors.ray import cluster

    ray.init(address=work.ray, namespace=f"driver {work.number}", log_to_driver=False)
    cluster.WORKER_START_SECONDS = 600.0  # many drivers share this machine
    options = CommitOptions(workers=2, worker_cpus=0.1)
    with commit_pool(options, name=work.pool or "own", shared=work.pool is not None) as pool:
        yield pool


class _Driver:
    def __init__(self, work: Drive, executor: ExecutorName | CommitPool) -> None:
        self._work, self._executor, self._dest = work, executor, work.dest
        self._journal = Journal(work.directory / "journal")

    def run(self) -> None:
        self._journal.put(number=NO_JOB, step="begun")
        finish_made_from_log(self._dest, self._executor)
        for planned in planned_jobs(self._work):
            if (last := self._journal.last(planned.number)) is None or last["step"] != "ended":
                if last is None:
                    wait_until_grown(self._work.beside)
                run = self._make if planned.kind in ("drop", "undo") else self._apply
                outcome, version = run(planned)
                self._put(planned, "ended", outcome=outcome, version=version)
        finish_made_from_log(self._dest, self._executor)

    def _apply(self, planned: Planned) -> tuple[str, int | None]:
        """Run an application until its job is committed or given up, each time under a new id."""
        runs = [line for line in self._journal.lines if line["number"] == planned.number]
        last = runs[-1] if runs else None
        for run in range(len(runs), len(runs) + MOST_RUNS):
            if last is not None and last["step"] == "begun":
                self._abort(last["job_id"])
                last = None
            if last is None:
                job_id = f"{self._work.number}-{planned.number}-{run}"
                self._put(planned, "begun", job_id=job_id)
                try:
                    last = self._write(planned, job_id)
                except CommitConflictError:
                    self._abort(job_id)
                    return "refused", None
            found = self._commit(planned, last["job_id"])
            if found is not None:
                return found
            last = None
        raise AssertionError(f"{planned}: was aborted {MOST_RUNS} times")

    def _write(self, planned: Planned, job_id: str) -> dict[str, Any]:
        """Set up the job and run its tasks."""
        options = self._options(planned)
        setup_job(self._dest, job_id, options=options, on_warning=lambda _: None)
        if planned.kind in ("derive", "read"):
            rows = rows_from(job_id, planned.hours, self._read(planned.day))
        else:
            rows = new_rows(job_id, planned.hours)
        for task, hour in enumerate(planned.hours):
            stem = task if planned.fixed_names else f"{job_id}-{task}"
            own = [row for row in rows if partition_of(row) == hour]
            with task_attempt(self._dest, job_id, task) as attempt:
                for number, part in enumerate((own[:2], own[2:])):
                    with attempt.open(f"{hour}/part-{stem}-{number}.parquet") as file:
                        pq.write_table(table_of(part), file)
        return self._put(planned, "written", job_id=job_id, hours=planned.hours, rows=rows)

    def _commit(self, planned: Planned, job_id: str) -> tuple[str, int | None] | None:
        """Commit the job by the same command until it ends; None if another job has aborted it."""
        options = self._options(planned)
        for _ in range(MOST_RUNS):
            try:
                report = commit_job(self._dest, job_id, executor=self._executor, options=options)
                if report.table_version is None:  # another process has committed it
                    return self._version_of(job_id)
                return "committed", report.table_version
            except CommitAbortedError:
                self._abort(job_id)  # by itself, when it was killed, or by another job
                return None
            except JobNotFoundError:
                return self._version_of(job_id)
            except CommitConflictError:
                with suppress(CommitConflictError):  # it is recorded: by now, or by another process
                    self._abort(job_id)
                    return self._version_of(job_id) or ("refused", None)
            except CommitStateUnknownError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"{planned}: was not committed by {MOST_RUNS} runs")

    def _make(self, planned: Planned) -> tuple[str, int | None]:
        """Run a job that is made from the log."""
        self._put(planned, "begun")
        options = self._options(planned)
        try:
            if planned.kind == "drop":
                report = drop_partition(
                    self._dest, [planned.day], executor=self._executor, options=options
                )
                return "committed", report.table_version
            versions = (line["version"] for line in reversed(self._journal.lines) if line.get("version"))
            if (version := next(versions, None)) is None:
                return "nothing", None
            report = undo_version(self._dest, version, executor=self._executor, options=options)
            return "committed", report.table_version
        except (CommitConflictError, CommitAbortedError):
            return "refused", None
        except (PathError, TableVersionGoneError, JobNotFoundError):
            return "nothing", None
        except CommitStateUnknownError:
            finish_made_from_log(self._dest, self._executor)
            return "unknown", None

    def _options(self, planned: Planned) -> CommitOptions:
        is_of_day = planned.kind in ("day", "derive")
        return CommitOptions(
            mode=_MODES.get(planned.kind, ConflictMode.APPEND),
            replaced_roots=(f"{self._dest}/{planned.day}",) if is_of_day else (),
            reads=(planned.day,) if planned.kind in ("derive", "read") else (),
            keep_replaced=planned.keeps,
            finish_others=planned.finishes,
            conflict_wait_seconds=planned.wait_seconds,
        )

    def _read(self, day: str) -> list[Row]:
        """The rows of a day, in a version that is not before the set-up of this job."""
        while True:
            found = snapshot(self._dest)
            with suppress(FileNotFoundError, TableVersionGoneError):
                return rows_in(found.dataset(day).to_table()) if found.files(day) else []

    def _abort(self, job_id: str) -> None:
        with suppress(JobNotFoundError):
            abort_job(self._dest, job_id)

    def _version_of(self, job_id: str) -> tuple[str, int | None] | None:
        found = (one for one in history(self._dest) if one.job_id == job_id)
        return next((("committed", one.version) for one in found), None)

    def _put(self, planned: Planned, step: str, **more: Any) -> dict[str, Any]:
        self._journal.put(number=planned.number, kind=planned.kind, day=planned.day, step=step, **more)
        return self._journal.lines[-1]


def finish_made_from_log(dest: str, executor: ExecutorName | CommitPool = "threads") -> None:
    """Finish the jobs whose ids their drivers did not know when they were killed."""
    for one in list_jobs(dest):
        if one.job_id.startswith(MADE_FROM_LOG) and one.command and not one.is_alive:
            with suppress(CommitConflictError, CommitStateUnknownError, JobNotFoundError):
                if one.state in ("aborting", "undoing"):
                    abort_job(dest, one.job_id, undo=True)
                else:
                    commit_job(dest, one.job_id, executor=executor)


def new_rows(job_id: str, hours: Sequence[str]) -> list[Row]:
    """Rows that no other job writes."""
    return [
        (*_numbers(hour), job_id, number, f"{job_id} {hour} {number}")
        for hour in hours
        for number in range(3)
    ]


def rows_from(job_id: str, hours: Sequence[str], read: Iterable[Row]) -> list[Row]:
    """Rows that show exactly which rows a job has read."""
    return [(*_numbers(hour), job_id, 0, digest_of(read)) for hour in hours]


def digest_of(rows: Iterable[Row]) -> str:
    return sha256(json.dumps(sorted(rows)).encode()).hexdigest()[:20]


def partition_of(row: Row) -> str:
    return f"day={row[0]}/hour={row[1]}"


def table_of(rows: Iterable[Row]) -> pa.Table:
    lines = [{name: row[2 + place] for place, name in enumerate(COLUMNS[2:])} for row in rows]
    return pa.Table.from_pylist(lines, schema=_SCHEMA)


def rows_in(table: pa.Table) -> list[Row]:
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def wait_until_grown(paths: Sequence[Path], pause: float = 0.02) -> None:
    """Wait until each of some files has grown; the test ends this process if that never happens."""
    before = {path: size_of(path) for path in paths}
    while any(size_of(path) == size for path, size in before.items()):
        time.sleep(pause)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _numbers(hour: str) -> tuple[int, int]:
    day, number = (int(name.partition("=")[2]) for name in hour.split("/"))
    return day, number
