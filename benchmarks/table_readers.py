"""How long does a reader of a table with a log need to find its files, and how much memory and how many
requests?

On local files: one partition of 1,000 files, in a table of 1,000,000; all files of it; and the changes
of one job of 1,000 files. Memory is what a process of its own has grown by, for each file. Beside it:
the checkpoint that a commit to one partition saves, and the one of 1,000,000 files in 100,000
partitions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_entry import (
    TableClaim,
    TableCommit,
    TableDefinition,
    WriteMode,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.append import append
from ray_committer.tables.changes import committed_since
from ray_committer.tables.file_sets import read_file_set, save_file_set
from ray_committer.tables.log import read_definition
from ray_committer.tables.put import init_table
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.tables.snapshot import TableSnapshot
from ray_committer.testing import StoreCall, WrappedStore

PARTITIONS, FILES_OF_ONE = 1_000, 1_000
FILES = PARTITIONS * FILES_OF_ONE
MEMORY = """
import sys
import table_readers
found = table_readers.open_snapshot(table_readers.local(), table_readers.TablePlaces(sys.argv[1]))
before = table_readers.memory("VmRSS")
files = found.files()
print((table_readers.memory("VmHWM") - before) / len(files))
"""


def local() -> StoreOperations:
    return LocalStore(StoreSpec("file"))


def make_table(root: Path, partitions: int, files: int) -> TablePlaces:
    """A table of `partitions` with as many `files` each, which one job has brought, in a checkpoint."""
    table = TablePlaces(str(root))
    root.mkdir(parents=True)
    init_table(local(), table, TableDefinition(table_id="id", created_milliseconds=1))
    names = [
        f"day={day:06d}/part-{number:05d}-0e7d3b6c-8b1f-4a55-9d5e-2f8a9c1b7e40-c000.snappy.parquet"
        for day in range(partitions)
        for number in range(files)
    ]
    commit(table, "first", names)
    assert save_checkpoint(local(), table, "id") is None
    return table


def commit(table: TablePlaces, job_id: str, names: list[str]) -> int:
    """Put the entries of an append into the log; the version of its commit."""
    store = local()
    files = [ListedFile(name, 1_000_000, 1_700_000_000_000 + at) for at, name in enumerate(names)]
    claim = TableClaim(
        job_id=job_id,
        job_attempt=0,
        nonce=job_id,
        mode=WriteMode.APPEND,
        partitions=sorted({name.partition("/")[0] for name in names}) if len(names) < FILES else [""],
        files=save_file_set(store, table, files, job_id=job_id, job_attempt=0),
        at_milliseconds=1,
    )
    version = append(store, table, claim, 0)
    entry = TableCommit(job_id=job_id, job_attempt=0, claim=version, at_milliseconds=1)
    return append(store, table, entry, version)


def memory(what: str) -> int:
    """The bytes that this process has now, or has had at most since it has begun."""
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(what))
    return int(line.split()[1]) * 1024


def open_snapshot(store: StoreOperations, table: TablePlaces) -> TableSnapshot:
    """As `ray_committer.snapshot`."""
    definition = read_definition(store, table)
    assert definition is not None
    return TableSnapshot(store, table, definition.table_id)


def one_partition(store: StoreOperations, table: TablePlaces) -> int:
    found = open_snapshot(store, table)
    files = found.files("day=000700")
    return len(found.places(files, "day=000700"))


def all_partitions(store: StoreOperations, table: TablePlaces) -> int:
    found = open_snapshot(store, table)
    return len(found.files())


def changes(store: StoreOperations, table: TablePlaces) -> int:
    """As `ray_committer.changes` from the version before the job."""
    definition = read_definition(store, table)
    assert definition is not None
    (one,) = committed_since(store, table, definition.table_id, 2)
    return len(read_file_set(store, table, one.claim.files, job_id="last", job_attempt=0))


def measure(
    run: Callable[[StoreOperations, TablePlaces], int], table: TablePlaces, files: int
) -> dict[str, Any]:
    """Seconds on local files, and requests."""

    def once() -> dict[str, float]:
        begun = time.perf_counter()
        assert run(local(), table) == files
        return {"seconds": time.perf_counter() - begun}

    calls: list[StoreCall] = []
    run(WrappedStore(local(), before=calls.append), table)
    return {**harness.rounds(once), "requests": len(calls)}


def memory_of(table: TablePlaces) -> float:
    """Bytes per file by which a fresh process has grown when it has all files of a snapshot."""
    command = [sys.executable, "-c", MEMORY, table.destination]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return round(float(done.stdout), 1)


def saved(table: TablePlaces) -> dict[str, float]:
    """Save the checkpoint after a commit of 1,000 files to one partition."""
    before = memory("VmHWM")
    calls: list[StoreCall] = []
    begun = time.perf_counter()
    assert save_checkpoint(WrappedStore(local(), before=calls.append), table, "id") is None
    return {
        "seconds": round(time.perf_counter() - begun, 4),
        "requests": len(calls),
        "parts_read": sum(call.operation == "read" and "/parts/" in call.paths[0] for call in calls),
        "grown_bytes": memory("VmHWM") - before,
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="table-readers-"))
    try:
        table = make_table(root / "table", PARTITIONS, FILES_OF_ONE)
        one = measure(one_partition, table, FILES_OF_ONE)
        everything = measure(all_partitions, table, FILES)
        everything["bytes_per_file"] = memory_of(table)
        commit(table, "last", [f"day=000700/last-{number:05d}" for number in range(FILES_OF_ONE)])
        since = measure(changes, table, FILES_OF_ONE)
        checkpoint = saved(table)
        wide = make_table(root / "wide", FILES // 10, 10)
        of_wide = measure(one_partition, wide, 10)
        size = sum(path.stat().st_size for path in Path(wide.checkpoints).glob("*.entry"))
    finally:
        shutil.rmtree(root)
    harness.save(
        "table_readers",
        __doc__,
        {
            "files": FILES,
            "partitions": PARTITIONS,
            "one_partition": one,
            "all_partitions": everything,
            "changes_of_one_job": since,
            "checkpoint_after_one_job": checkpoint,
            "one_of_100_000_partitions": {**of_wide, "bytes_of_checkpoint": size},
        },
        {
            "one partition, seconds": (one["median"]["seconds"], "<=", 0.1),
            "one partition, requests": (one["requests"], "<=", 6),
            "all files, seconds": (everything["median"]["seconds"], "<=", 5.0),
            "all files, bytes of memory per file": (everything["bytes_per_file"], "<=", 300.0),
            "changes of one job, seconds": (since["median"]["seconds"], "<=", 0.05),
            "changes of one job, requests": (since["requests"], "<=", 4),
            "one of 100,000 partitions, requests": (of_wide["requests"], "<=", 6),
        },
    )


if __name__ == "__main__":
    main()
