"""Is a whole Spark job faster than with an earlier state of this project?

The same append, with its tasks, at 20 ms a request, by this checkout and by another one, in pairs: each
in a driver of its own, each pair begun by the other one. The ratio is that of a pair, which had the same
load. Each jar is built from its checkout. To make the other one:

    git worktree add DIRECTORY COMMIT
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from pathlib import Path
from typing import Any

import harness
import spark_jobs
from spark_jobs import ROOT

from tests.integration.spark.metered_job import MeteredJob

PYTHON = ROOT / ".venv-spark4" / "bin" / "python"
MILLIS = 20
JOBS = {
    "200 partitions x 10 files": (MeteredJob("ours", "append", MILLIS, 200, 10), 5, 0.95),
    "40 tasks x 500 partitions": (MeteredJob("ours", "append", MILLIS, 500, 40), 2, 0.8),
}
"""Each with its number of pairs, and the most that it may take of the time that it took before. The
second one takes minutes, most of them asleep, which hardly differs from run to run."""
HERE, BEFORE = "this checkout", "the earlier one"


def in_pairs(job: MeteredJob, pairs: int, before: Path) -> dict[str, Any]:
    """Both checkouts in turns, and the ratio of each pair."""
    checkouts = {HERE: ROOT, BEFORE: before}
    found: list[dict[str, float]] = []
    for number in range(pairs):
        names = [HERE, BEFORE] if number % 2 else [BEFORE, HERE]
        taken = {name: measure(job, checkouts[name]) for name in names}
        pair = {f"{what}: {name}": taken[name][what] for name in checkouts for what in taken[name]}
        pair["ratio"] = taken[HERE]["seconds"] / taken[BEFORE]["seconds"]
        print(pair, flush=True)
        found.append(pair)
    ratio = round(statistics.median(pair["ratio"] for pair in found), 3)
    return {"rounds": found, "median": harness.medians(found) | {"ratio": ratio}}


def measure(job: MeteredJob, checkout: Path) -> dict[str, float]:
    """One job in a driver of its own."""
    (taken,) = spark_jobs.in_one_driver([job], str(PYTHON), checkout)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--only", choices=JOBS, help="measure one job; nothing is saved")
    given = parser.parse_args()
    before = given.before.resolve()
    for checkout in (ROOT, before):  # so that each has its own jar
        subprocess.run([PYTHON, "hatch_build.py"], cwd=checkout, check=True)
    described = subprocess.run(
        ["git", "describe", "--always"], cwd=before, capture_output=True, text=True, check=True
    )
    if given.only:
        print(in_pairs(*JOBS[given.only][:2], before)["median"])
        return
    jobs = {name: in_pairs(job, pairs, before) for name, (job, pairs, _) in JOBS.items()}
    harness.save(
        "spark_before",
        __doc__ or "",
        {"before": described.stdout.strip(), "jobs": jobs},
        {
            f"{name}, of the time before": (jobs[name]["median"]["ratio"], "<=", bar)
            for name, (_, _, bar) in JOBS.items()
        },
    )


if __name__ == "__main__":
    main()
