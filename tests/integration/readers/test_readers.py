"""Readers that know nothing of this package, in a loop beside commits: a new partition is complete, or
it is not there."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.protocol.paths import STAGED, JobAttempt, join, new_job_attempt
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore, run_commit, write_job
from tests.stages.support import staged_name

ROOT = Path(__file__).parents[3]
TASKS, PARTITIONS, ROWS = 3, 3, 5
FULL = TASKS * ROWS
"""How many rows a partition has: each task writes a file into each."""
KILLED = 10
"""Of so many commits, one is killed, each time before another request, and this process finishes it."""
PYTHON_ALONE = ("arrow", "duckdb")


class Reader:
    """A program that reads the table in a loop; `seen` are the numbers of rows that it found in each
    partition."""

    def __init__(self, kind: str, table: Path) -> None:
        self.kind = kind
        self.samples = 0
        self.seen: defaultdict[str, set[int]] = defaultdict(set)
        self.rows: dict[str, int] = {}
        self._changed = Condition()
        self._errors = table.with_name(f"{kind}.err")
        command = [sys.executable, "-m", "tests.integration.readers.reader", kind, str(table)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
            )
        self._thread = Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            changed = json.loads(line)
            with self._changed:
                self.samples += 1
                self.rows |= changed
                for partition, rows in changed.items():
                    self.seen[partition].add(rows)
                self._changed.notify_all()
        with self._changed:
            self.samples = -1
            self._changed.notify_all()

    def look(self) -> None:
        """Wait for a sample that has begun after this call."""
        with self._changed:
            wanted = self.samples + 2
            self._changed.wait_for(lambda: self.samples < 0 or self.samples >= wanted)
            assert self.samples > 0, self._errors.read_text()[-3000:]

    def parts(self) -> dict[str, set[int]]:
        """The partitions that were seen with another number of rows than all, or were gone again."""
        return {partition: rows for partition, rows in self.seen.items() if rows != {FULL}}

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()
        with self._process:
            pass


@contextmanager
def reading(table: Path, kinds: Sequence[str]) -> Iterator[list[Reader]]:
    """Readers of an empty directory, each of which has looked."""
    table.mkdir()
    readers = [Reader(kind, table) for kind in kinds]
    try:
        look(readers)
        yield readers
    finally:
        for reader in readers:
            reader.close()


def look(readers: Sequence[Reader]) -> None:
    for reader in readers:
        reader.look()


def written_job(table: Path, store: LocalStore, number: int) -> JobAttempt:
    """A job whose tasks have written into new partitions, a file each into each."""
    file = io.BytesIO()
    pq.write_table(pa.table({"row": range(ROWS)}), file)
    job = new_job_attempt(str(table), f"job_{number}", 0)
    tasks = {
        task: {
            f"p={number:03}-{partition}/{staged_name('part', task)}.parquet": file.getvalue()
            for partition in range(PARTITIONS)
        }
        for task in range(TASKS)
    }
    write_job(store, job, tasks)
    return job


@contextmanager
def committing(job: JobAttempt, *request: str) -> Iterator[subprocess.Popen[str]]:
    """A process that commits a job and stops where `committer` says; it is killed in the end."""
    command = [sys.executable, "-m", "tests.integration.readers.committer", job.destination, job.job_id]
    with subprocess.Popen(
        [*command, *request], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield process
        process.kill()


def commit_with_stops(job: JobAttempt, readers: Sequence[Reader]) -> list[str]:
    """Commit a job; before each request, which are returned, all readers look."""
    requests = []
    with committing(job) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while line := process.stdout.readline():
            look(readers)
            requests.append(line.strip())
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait(60) == 0
    return requests


def test_before_each_request_of_a_commit_new_partitions_are_complete_or_not_there(
    dest: Path, store: LocalStore
):
    with reading(dest, PYTHON_ALONE) as readers:
        requests = commit_with_stops(written_job(dest, store, 0), readers)
        look(readers)
    assert requests.count("move_whole") == 1 + PARTITIONS  # the freeze
    for reader in readers:
        assert reader.parts() == {}, reader.kind
        assert set(reader.rows.values()) == {FULL}
        assert len(reader.rows) == PARTITIONS


def test_where_files_move_one_by_one_readers_find_parts(dest: Path, store: LocalStore):
    """Also the proof that these readers would find a part of a partition that is to be whole."""
    with reading(dest, PYTHON_ALONE) as readers:
        job = written_job(dest, store, 0)
        for source in Path(join(job.tasks, STAGED)).iterdir():
            (source / "odd").mkdir()
        commit_with_stops(job, readers)
        look(readers)
    for reader in readers:
        assert reader.parts() == {
            f"000-{partition}": {rows * ROWS for rows in range(1, TASKS + 1)}
            for partition in range(PARTITIONS)
        }, reader.kind


@pytest.mark.parametrize(
    ("commits", "kinds"),
    [
        pytest.param(20, PYTHON_ALONE, id="20 commits"),
        pytest.param(
            200,
            (*PYTHON_ALONE, "spark"),
            id="200 commits, also Spark",
            marks=[
                pytest.mark.wide,
                pytest.mark.spark,
                pytest.mark.timeout(1800),
                pytest.mark.xdist_group("spark-scripts"),
            ],
        ),
    ],
)
def test_beside_commits_some_of_which_are_killed_new_partitions_are_complete_or_not_there(
    dest: Path, store: LocalStore, commits: int, kinds: Sequence[str]
):
    with reading(dest, kinds) as readers:
        requests = count_requests(written_job(dest, store, 0), store)
        for number in range(1, commits):
            job = written_job(dest, store, number)
            if number % KILLED == 0:
                kill_a_commit(job, number * 7 % requests + 1, readers)
            commit(job)
            readers[number % 2].look()
        look(readers)
    for reader in readers:
        assert reader.parts() == {}, reader.kind
        assert reader.rows == {
            f"{number:03}-{partition}": FULL
            for number in range(commits)
            for partition in range(PARTITIONS)
        }


def count_requests(job: JobAttempt, store: LocalStore) -> int:
    """Commit a job; how many requests that takes."""
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    return len(calls)


def commit(job: JobAttempt) -> None:
    options = CommitOptions(expected_tasks=TASKS)
    result = ray_committer.commit_job(job.destination, job.job_id, options=options)
    assert result.files == TASKS * PARTITIONS


def kill_a_commit(job: JobAttempt, request: int, readers: Sequence[Reader]) -> None:
    """Kill a process before a request, where all readers look."""
    with committing(job, str(request)) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        look(readers)
