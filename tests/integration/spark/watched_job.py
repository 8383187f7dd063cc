"""What readers of a table see at each request of Spark jobs that write to it, with each committer.

``python watched_job.py DIRECTORY COMMITTER ...`` prints a JSON line for each kind of write by each of
these committers of `metered_job`: for each partition what was seen, as `Seen`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.stores import registry
from ray_committer.testing import StoreCall, WrappedStore
from tests.integration.spark.metered import compile_java, compiled
from tests.integration.spark.metered_job import MeteredJob, by_committer, rows_of, session, write

WRITES = {"append": "append", "dynamic": "overwrite", "overwrite": "overwrite", "one task": "append"}
WITH_DATA, NEW = "p=0", "p=1"
TASKS = 3
"""Each writes a file to each of the two partitions, but in a write by one task, which writes all."""
BINDING = Path(__file__).parents[3] / "benchmarks" / "java" / "ManifestBinding.java"

State = tuple[str, frozenset[str]]
"""Since when something was visible, as `WatchedFileSystem` says it, and what."""


@dataclass
class Seen:
    """How many old and new files a partition had, one after another, and when each number began."""

    old: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    when: list[str] = field(default_factory=list)


def seen(states: list[State], partition: str) -> Seen:
    """What was seen of one partition; the files of the first state are old."""
    _, old = states[0]
    found = Seen()
    for when, files in states:
        here = {name for name in files if name.startswith(f"{partition}/")}
        numbers = len(here & old), len(here - old)
        if not found.when or numbers != (found.old[-1], found.new[-1]):
            found.old.append(numbers[0])
            found.new.append(numbers[1])
            found.when.append(when)
    return found


@contextmanager
def watching(spark: SparkSession, table: Path) -> Iterator[list[State]]:
    """What is seen in the table, filled in the end: at the requests of the JVM, and of our commit."""
    states: list[State] = []
    one_at_a_time = threading.Lock()
    watched = spark._jvm.WatchedFileSystem
    watched.watch(str(table))

    def look(call: StoreCall) -> None:
        with one_at_a_time:
            if not states:
                states.extend(_of_jvm(watched.seen()))
            states.append(("commit", _visible(table)))

    opened = vars(registry)["LocalStore"]
    vars(registry)["LocalStore"] = lambda spec: WrappedStore(opened(spec), after=look)
    registry.open_stores.clear()
    yield states
    vars(registry)["LocalStore"] = opened
    registry.open_stores.clear()
    states[:] = states or _of_jvm(watched.seen())


def _visible(table: Path) -> frozenset[str]:
    visible: set[str] = set()
    for parent, directories, names in os.walk(table):
        directories[:] = [name for name in directories if name[0] not in "._"]
        visible |= {str(Path(parent, name).relative_to(table)) for name in names if name[0] not in "._"}
    return frozenset(visible)


def _of_jvm(text: str) -> list[State]:
    lines = [line.split(" ") for line in text.splitlines()]
    return [(when, frozenset(files)) for when, *files in lines]


def main() -> None:
    directory, *committers = sys.argv[1:]
    if "manifest" in committers:
        compile_java(compiled(), BINDING)
    spark = session({"spark.hadoop.fs.file.impl": "WatchedFileSystem"})
    for committer in committers:
        for kind, mode in WRITES.items():
            job = MeteredJob(committer, kind, partitions=2, files=TASKS)
            table = Path(directory, committer, kind)
            rows = rows_of(spark, job.partitions, job.files)
            if kind == "one task":
                rows = rows.coalesce(1)
                spark.conf.set("spark.sql.files.maxRecordsPerFile", "10")
            write(rows.where("p = 0"), str(table), "append", job)
            with by_committer(spark, job), watching(spark, table) as states:
                write(rows, str(table), mode, job)
            found = {name: asdict(seen(states, name)) for name in (WITH_DATA, NEW)}
            spark.conf.unset("spark.sql.files.maxRecordsPerFile")
            marker = (table / "_SUCCESS").read_text()
            print(json.dumps({"committer": committer, "write": kind, **found, "marker": marker}))
    spark.stop()


if __name__ == "__main__":
    main()
