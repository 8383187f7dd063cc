"""How many workers are enough, and why more gain nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ray_committer.estimate.inputs import Job, Setup
from ray_committer.estimate.profiles import GCS, HDFS, S3
from ray_committer.estimate.simulate import simulate
from ray_committer.estimate.workers import NEAR, enough_workers

JOB = Job(files=60_000, manifests=60, partitions=20)
SETUP = Setup(HDFS, latency=0.05, in_flight=16, workers=1, warm=True)


@pytest.mark.parametrize(
    ("job", "setup", "reason"),
    [
        (JOB, replace(SETUP, store=GCS), "writes per second of the bucket"),
        (JOB, replace(SETUP, store=S3), "the 3,500 writes per second of the prefix"),
        (Job(1_000_000, 1_000, 100), replace(SETUP, latency=0.002), "the driver"),
        (Job(200, 2, 1), SETUP, "follow one another"),
    ],
)
def test_the_reason_is_what_the_commit_waits_for(job: Job, setup: Setup, reason: str):
    assert reason in enough_workers(job, setup).reason


def test_more_workers_gain_at_most_a_twentieth_and_fewer_take_longer():
    found = enough_workers(JOB, replace(SETUP, store=S3))

    def seconds(workers: int) -> float:
        return simulate(JOB, replace(SETUP, store=S3, workers=workers)).seconds

    assert found.seconds == seconds(found.workers) <= NEAR * seconds(8 * found.workers)
    assert seconds(found.workers // 2) > NEAR * found.seconds


def test_the_number_does_not_depend_on_the_number_that_is_asked_about():
    few, many = (enough_workers(JOB, replace(SETUP, workers=n)) for n in (1, 100))
    assert few == many
