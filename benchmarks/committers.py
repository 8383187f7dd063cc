"""One Spark job with each committer, on a store that takes its time.

Local files, of which each request takes as long as one to a store behind a network, for Spark, for the
committer and for Ray's workers alike. A small table is written before each, so that what starts once
has started. ``make demo`` runs it; ``spark_jobs.py`` is the benchmark.
"""

from __future__ import annotations

import argparse

from spark_jobs import in_one_driver

from tests.integration.spark.metered_job import MeteredJob

NAMES = {
    "v1": "Spark's own committer",
    "manifest": "Hadoop's manifest committer",
    "ours": "ray_committer in the driver's threads",
    "ours on Ray": "ray_committer on Ray, 2 workers",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--files", type=int, default=5, help="in each partition")
    parser.add_argument("--millis", type=int, default=20, help="that a request takes")
    given = parser.parse_args()
    print(
        f"df.write of {given.partitions * given.files:,} files in {given.partitions} partitions, "
        f"{given.millis} ms a request:"
    )
    for committer, name in NAMES.items():
        job = MeteredJob(committer, "append", given.millis, given.partitions, given.files)
        (taken,) = in_one_driver([job])
        print(
            f"  {name:<38} {taken['seconds']:6.1f} s, of which the job commit "
            f"{taken['commit_seconds']:6.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
