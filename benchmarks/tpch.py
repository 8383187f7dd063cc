"""How long do TPC-H's two large tables take with Spark's own committer and with each way of ours?

Lineitem in 2,526 partitions by ship date, and orders in five by priority: an append to no data, an
overwrite of the whole table, and a dynamic overwrite of a part of it, on local files. Spark in one
process writes them with its own committer, with ours in the driver's threads, and deferred, which the
command `ray-committer commit` finishes; Spark on RayDP with its own committer and with ours on a pool of
Ray workers. The committers of a session take turns, each round in another order. After each write,
DuckDB's answers to Q1, Q4 and Q6 are those for the source.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import harness
import pyspark

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.tpch import JOBS, TABLES, TpchWrite, answers, generate

SCRIPT = Path(__file__).parents[1] / "tests/integration/spark/tpch.py"
SESSIONS = {"local[2]": ("v1", "threads", "deferred"), "raydp": ("v1", "ray")}
ROUNDS = 3
NAMES = {
    "v1": "Spark's own committer",
    "threads": "ray_committer in threads",
    "deferred": "deferred, and the command",
    "ray": "ray_committer on Ray",
}


def measure(master: str, source: Path, directory: Path, rounds: int) -> dict[str, Any]:
    """The rounds of each write in one session and their medians; each committer warms up on lineitem."""
    committers = SESSIONS[master]
    expected = answers(source)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    writes = [TpchWrite(one, "lineitem", "dynamic") for one in committers]
    writes += list(turns(committers, rounds))
    for number, (write, one) in enumerate(
        zip(writes, in_one_driver(master, source, directory, writes), strict=True)
    ):
        assert one.pop("answers") == expected, write
        print(write, one, file=sys.stderr, flush=True)
        if number >= len(committers):
            name = f"{write.job} of {write.table}"
            found.setdefault(name, {}).setdefault(write.committer, []).append(one)
    return {
        name: {
            committer: {"rounds": each, "median": harness.medians(each)}
            for committer, each in one.items()
        }
        for name, one in found.items()
    }


def turns(committers: tuple[str, ...], rounds: int) -> Iterator[TpchWrite]:
    for turn, table, job in itertools.product(range(rounds), TABLES, JOBS):
        first = turn % len(committers)
        for committer in committers[first:] + committers[:first]:
            yield TpchWrite(committer, table, job)


def in_one_driver(
    master: str, source: Path, directory: Path, writes: list[TpchWrite]
) -> Iterator[dict[str, Any]]:
    command = [sys.executable, str(SCRIPT), master, str(source), str(directory)]
    command += [json.dumps(asdict(write)) for write in writes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        yield from (json.loads(line) for line in driver.stdout if line.startswith("{"))
    assert driver.returncode == 0


def show(sessions: dict[str, dict[str, Any]]) -> None:
    """Print the seconds of each write, those after its last task, and what part it is of Spark's own."""
    for master, jobs in sessions.items():
        for name, committers in jobs.items():
            print(f"{name}, {master}")
            own = committers["v1"]["median"]["seconds"]
            for committer, one in committers.items():
                median = one["median"]
                print(
                    f"  {NAMES[committer]:<26} {median['seconds']:7.2f} s"
                    f"  ({median['commit_seconds']:.2f} s after the last task)"
                    f"  {median['seconds'] / own:5.2f} of Spark's own"
                )


def bars(sessions: dict[str, dict[str, Any]]) -> dict[str, tuple[float, str, float]]:
    """No write of lineitem is slower than with Spark's own committer."""
    found = {}
    for master, jobs in sessions.items():
        for name, committers in jobs.items():
            own = committers["v1"]["median"]["seconds"]
            for committer, one in committers.items():
                if committer != "v1" and "lineitem" in name:
                    ratio = round(one["median"]["seconds"] / own, 3)
                    found[f"{name}, {master}: {committer} of Spark's own"] = (ratio, "<=", 1.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--session", choices=SESSIONS, action="append", help="default: both")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tpch-"))
    try:
        generate(root / "source", given.scale)
        sessions = {
            master: measure(master, root / "source", Path(tempfile.mkdtemp(dir=root)), given.rounds)
            for master in given.session or SESSIONS
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)
    show(sessions)
    found = {"spark": pyspark.__version__, "scale": given.scale, "sessions": sessions}
    harness.save("tpch", __doc__ or "", found, bars(sessions))


if __name__ == "__main__":
    main()
