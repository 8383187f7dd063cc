"""Do each kind of write with Spark's own committer and with ours, and print what is different.

``python -m tests.integration.spark.matrix MASTER DIRECTORY [NAME ...]`` does the cases that are named:
without a name, all. What each write left is in DIRECTORY/found.json.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from ray_committer import CommitOptions
from ray_committer.events import Event
from ray_committer.protocol.whole import ByFile
from ray_committer.report.commit_report import CommitReport
from ray_committer.spark import install, uninstall
from ray_committer.spark.handler import CommitHandler
from tests.integration.spark.driver_session import session, stop
from tests.integration.spark.matrix.differences import judge
from tests.integration.spark.matrix.place import NOT_REFUSED, Case, Place, shown
from tests.integration.spark.matrix.selection import named
from tests.integration.spark.matrix.snapshot import Snapshot, snapshot


class Reports:
    """What our commits have reported: at an event of one, the report of the one before is there."""

    handler: CommitHandler

    def __init__(self) -> None:
        self._found: dict[str, CommitReport] = {}

    def note(self, _: Event | None = None) -> None:
        report = self.handler.last_report
        if report is not None:
            self._found[report.job_id] = report

    def taken(self) -> tuple[int, Counter[str]]:
        """How many directories went whole, and why how many others did not, since the last call."""
        self.note()
        reports = [self._found.pop(job) for job in list(self._found)]
        by_file = [Counter(report.by_file) for report in reports]
        return sum(report.whole for report in reports), sum(by_file, Counter[str]())


def run(spark: SparkSession, root: Path, cases: list[Case]) -> dict[str, dict[str, Any]]:
    """Each case by Spark's own committer and by ours; `commits` counts what our handler was asked,
    `whole` the directories that went whole, and `by file` the others."""
    spark.sparkContext.setLogLevel("OFF")
    for who in ("theirs", "ours"):
        spark.sql(f"CREATE DATABASE {who} LOCATION '{root / who / 'tables'}'")
    found: dict[str, dict[str, Any]] = {case.name: {} for case in cases}
    for number, case in enumerate(cases):
        found[case.name]["theirs"] = _left(case, _place(spark, root, "theirs", number))
    reports = Reports()
    options = CommitOptions(workers=2)
    handler = install(spark, executor="auto", options=options, on_event=reports.note).handler
    reports.handler = handler
    for number, case in enumerate(cases):
        before = handler.commits
        found[case.name]["ours"] = _left(case, _place(spark, root, "ours", number))
        found[case.name]["commits"] = handler.commits - before
        found[case.name]["whole"], found[case.name]["by file"] = reports.taken()
    uninstall(spark)
    return found


def _place(spark: SparkSession, root: Path, who: str, number: int) -> Place:
    name = f"case{number:03}"
    return Place(spark, root / who / name, f"{who}.{name}", is_ours=who == "ours")


def _left(case: Case, place: Place) -> Snapshot:
    try:
        frame = case.write(place)
    except Exception as e:  # noqa: BLE001 - compared
        place.errors.append(f"failed: {shown(e)}: {e}"[:1000])
        frame = None
    return snapshot(place, frame)


def wrong(case: Case, found: dict[str, Any]) -> list[str]:
    """What is wrong with a case, in sentences."""
    useless = [
        one for one in found["theirs"]["errors"] if one.startswith("failed") or one.endswith(NOT_REFUSED)
    ]
    theirs = found["theirs"] | {"commits": ["asked"] if case.commits else []}
    ours = found["ours"] | {"commits": ["asked"] if found["commits"] else []}
    return [
        *(f"Spark's own committer: {one}" for one in useless),
        *judge(case.differs, theirs, ours),
        *not_whole(case, Counter(found["by file"])),
    ]


def not_whole(case: Case, by_file: Counter[str]) -> Iterator[str]:
    """Directories that were not there and did not go whole, but for the reasons that the case names."""
    for reason in by_file.keys() - {ByFile.THERE.value, *case.by_file}:
        yield f"{by_file[reason]} directories did not go whole: {reason}"
    for reason in set(case.by_file) - by_file.keys():
        yield f"no directory went by file: {reason}"


def main() -> None:
    master, root = sys.argv[1], Path(sys.argv[2])
    os.umask(0o027)  # of the JVM, too, which is started from here
    root.chmod(0o755)  # Hive's catalog gives what it makes the mode of the directory above
    cases = named(sys.argv[3:])
    catalog = "hive" if any(case.hive for case in cases) else "in-memory"
    with ExitStack() as stack:
        spark = session(master, root, catalog=catalog)
        stack.callback(stop, spark, master)
        found = run(spark, root, cases)
    (root / "found.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
    bad = {case.name: lines for case in cases if (lines := wrong(case, found[case.name]))}
    for name, lines in bad.items():
        print(name, *lines[:20], sep="\n    ")
    whole = sum(one["whole"] for one in found.values())
    by_file = sum((Counter(one["by file"]) for one in found.values()), Counter[str]())
    print(
        f"Spark {pyspark.__version__}, {master}: {len(cases)} kinds of writes, {len(bad)} different; "
        f"{whole} directories went whole, by file: {dict(by_file)}"
    )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
