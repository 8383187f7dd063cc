"""The simulation: near the ideal where nothing is in the way, and slower by what is."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ray_committer.estimate.cluster import turn
from ray_committer.estimate.inputs import Job, Setup
from ray_committer.estimate.profiles import ADLS, GCS, HDFS, S3, STORES
from ray_committer.estimate.simulate import Estimate, simulate, simulate_lost_driver
from ray_committer.estimate.steps import LOAD, MOVE, START
from ray_committer.estimate.stores import limited_to

MANY = Job(files=100_000, manifests=400, partitions=100)
FOUR = Setup(HDFS, latency=0.035, in_flight=32, workers=4, warm=True)


def moved(job: Job, setup: Setup) -> float:
    return simulate(job, setup).stages[MOVE]


def test_moves_take_files_times_latency_over_requests_in_flight():
    ideal = MANY.files * 0.035 / 128
    assert ideal < moved(MANY, FOUR) < 1.06 * ideal
    assert ideal < moved(MANY, replace(FOUR, workers=None, in_flight=128)) < 1.06 * ideal


def test_each_stage_has_a_time_and_cold_workers_take_theirs():
    warm, cold = simulate(MANY, FOUR), simulate(MANY, replace(FOUR, warm=False))
    assert cold.seconds - warm.seconds == pytest.approx(cold.stages[START])
    assert all(seconds >= 0 for seconds in cold.stages.values())


@pytest.mark.parametrize("store", STORES.values(), ids=STORES.keys())
def test_more_in_flight_never_takes_longer(store):
    setup = Setup(store, store.latency, in_flight=8)
    times = [simulate(Job(20_000, 200, 20), replace(setup, in_flight=n)).seconds for n in (8, 16, 32)]
    assert times == sorted(times, reverse=True)


def test_one_worker_of_four_that_is_eight_times_slower_costs_an_eighth():
    """`benchmarks/straggler.py` measured 1.10 times the ideal."""
    job, ideal = Job(20_000, 80, 20, 20), 20_000 * 0.035 / (32 * (3 + 1 / 8))
    assert 1.0 < moved(job, replace(FOUR, slow=1)) / ideal < 1.25


def test_a_lost_worker_costs_its_start_and_nothing_is_lost():
    alone, beside = simulate(MANY, FOUR), simulate(MANY, replace(FOUR, lost=1))
    assert 0.1 < beside.stages[MOVE] - alone.stages[MOVE] < 4.0


def test_a_lost_driver_costs_half_of_the_moves_and_a_run_that_proves_them():
    alone, twice = simulate(MANY, FOUR), simulate_lost_driver(MANY, FOUR)
    assert twice.seconds - 30 > 1.5 * alone.seconds
    assert twice.requests["look"] > MANY.files * 0.9  # both ends of each file that was moved


def test_a_busy_machine_computes_longer_and_waits_as_long():
    busy = replace(FOUR, busy=2.0)
    assert 0.05 < simulate(MANY, busy).seconds - simulate(MANY, FOUR).seconds < 3.0


def test_threads_that_share_a_processor_wait_for_their_turn():
    assert turn(1, 0.02, 0.001) == pytest.approx(0.001)
    assert turn(64, 0.02, 0.001) > 0.02  # 64 ms of computing in each round of 20
    assert 0.02 + turn(64, 0.02, 0.001) == pytest.approx(64 * 0.001, rel=0.05)
    assert turn(64, 0.02, 0.0) == 0.0


def test_a_limit_of_the_store_is_what_a_commit_waits_for():
    limited = replace(FOUR, store=limited_to(HDFS, 500))
    found = simulate(MANY, limited)
    assert found.stages[MOVE] == pytest.approx(MANY.files / 500, rel=0.02)
    assert found.limit > 0.9


def test_a_bucket_of_google_takes_more_and_more_writes():
    """A million moves would take 1,000 s at the rate of its begin."""
    found = simulate(Job(1_000_000, 1_000, 100), replace(FOUR, store=GCS, workers=64))
    assert 600 < found.stages[MOVE] < 900


@pytest.mark.parametrize(("store", "per_second"), [(ADLS, 20_000), (S3, 3_500)])
def test_an_account_and_a_prefix_take_so_many(store, per_second: int):
    found = simulate(Job(1_000_000, 1_000, 100), replace(FOUR, store=store, workers=64, in_flight=64))
    assert 1_000_000 / per_second < found.stages[MOVE] < 1.05 * 1_000_000 / per_second


def test_one_driver_gives_only_so_many_calls_per_second():
    found = simulate(Job(2_000_000, 2_000, 1_000), Setup(HDFS, 0.02, 16, 512, warm=True))
    assert found.driver > 0.9
    assert found.stages[MOVE] > 5 * 2_000_000 * 0.02 / (16 * 512)


@pytest.mark.parametrize("files", [10**6, pytest.param(10**8, marks=pytest.mark.wide)])
def test_very_many_files_on_a_thousand_workers_are_simulated_in_seconds(files: int):
    begun = time.process_time()
    found = simulate(Job(files, files // 1_000, 1_000), Setup(ADLS, 0.05, 16, 1_000, warm=True))
    assert time.process_time() - begun < 20
    assert found.requests["rename"] == files


def test_many_tasks_of_one_file_take_as_long_to_load_as_to_move():
    found: Estimate = simulate(Job(94_499, 94_499), replace(FOUR, store=ADLS))
    assert found.stages[LOAD] == pytest.approx(found.stages[MOVE], rel=0.15)
