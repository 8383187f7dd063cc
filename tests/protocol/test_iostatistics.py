"""Aggregation of IOStatistics: small tables, algebra, and Hadoop's real snapshots."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol import statistic_names
from ray_committer.protocol.iostatistics import (
    Durations,
    IOStatistics,
    Mean,
    Names,
    aggregate,
    count,
    duration,
    packed,
)
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.success import decode_success

DATA = Path(__file__).parents[1] / "data" / "hadoop"
# Job, its true number of files, and of directories as its tasks scanned them.
JOBS = [
    ("job_202401011200_0007", 15, 17),
    ("7f0b1c3a-5b0e-4c5e-9c6e-0123456789ab", 9, 9),
    ("6a5f991c-ca0a-471a-9e81-3eb002380ef3", 12, 24),
    ("f84169fe-57ba-4a28-90e8-996ce9ef99da", 3, 3),
]
OWN_STAGES = {
    "job_stage_find_job",
    "job_stage_connect_ray",
    "job_stage_start_workers",
    "job_stage_preflight",
    "job_stage_save_commit_record",
    "job_stage_remove_replaced_files",
    "job_stage_commit_point",
    "job_stage_sync_to_disk",
}

values = st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**15))
snapshots = st.builds(
    IOStatistics,
    counters=values,
    gauges=values,
    minimums=values,
    maximums=values,
    meanstatistics=st.dictionaries(
        st.sampled_from("abc"), st.builds(Mean, st.integers(0, 10**9), st.integers(0, 10**15))
    ),
)


def manifests(job: str) -> list[TaskManifest]:
    found = sorted((DATA / "manifests" / job).iterdir())
    assert found
    return [decode_manifest(path.read_bytes(), str(path)) for path in found]


def aggregated(job: str) -> IOStatistics:
    parts = [manifest.iostatistics or IOStatistics() for manifest in manifests(job)]
    return reduce(aggregate, parts, IOStatistics())


def test_sums_and_extrema_of_two_snapshots() -> None:
    left = IOStatistics({"c": 1, "l": 5}, {"g": 1}, {"m": 3}, {"m": 3}, {"a": Mean(1, 10)})
    right = IOStatistics(
        {"c": 2, "r": 7}, {"g": 2}, {"m": 2}, {"m": 9}, {"a": Mean(2, 30), "b": Mean(1, 1)}
    )
    assert aggregate(left, right) == IOStatistics(
        {"c": 3, "l": 5, "r": 7}, {"g": 3}, {"m": 2}, {"m": 9}, {"a": Mean(3, 40), "b": Mean(1, 1)}
    )


@pytest.mark.parametrize(
    ("left", "right", "minimums", "maximums"),
    [
        (-1, -1, {}, {}),
        (-1, 4, {"k": 4}, {"k": 4}),
        (4, -1, {"k": 4}, {"k": 4}),
        (0, 4, {"k": 0}, {"k": 4}),
        (7, 4, {"k": 4}, {"k": 7}),
    ],
)
def test_minus_one_is_no_sample(
    left: int, right: int, minimums: dict[str, int], maximums: dict[str, int]
) -> None:
    total = aggregate(
        IOStatistics(minimums={"k": left}, maximums={"k": left}),
        IOStatistics(minimums={"k": right}, maximums={"k": right}),
    )
    assert (total.minimums, total.maximums) == (minimums, maximums)


@given(snapshots, snapshots, snapshots)
def test_the_order_of_aggregation_does_not_matter(
    a: IOStatistics, b: IOStatistics, c: IOStatistics
) -> None:
    assert aggregate(a, b) == aggregate(b, a)
    assert aggregate(aggregate(a, b), c) == aggregate(a, aggregate(b, c))


@given(st.lists(snapshots, max_size=3))
def test_what_is_packed_is_unpacked_and_shares_its_names(some: list[IOStatistics]) -> None:
    known: dict[Names, Names] = {}
    kept = [packed(one, known) for one in some]
    assert [one.statistics for one in kept] == some
    again = [packed(one, known) for one in some]
    assert all(one.names is other.names for one, other in zip(kept, again, strict=True))


def test_a_count_of_any_size_is_packed() -> None:
    assert packed(count("bytes", 1 << 80), {}).statistics == count("bytes", 1 << 80)


@given(snapshots)
def test_nothing_added_changes_nothing(snapshot: IOStatistics) -> None:
    assert aggregate(snapshot, IOStatistics()) == aggregate(IOStatistics(), snapshot) == snapshot


@given(snapshots, snapshots)
def test_aggregation_leaves_its_arguments_alone(left: IOStatistics, right: IOStatistics) -> None:
    before = (repr(left), repr(right))
    aggregate(left, right)
    assert (repr(left), repr(right)) == before


@pytest.mark.parametrize(
    ("failed", "key"), [(False, "op_rename"), (True, "op_rename.failures")], ids=["done", "failed"]
)
def test_durations_have_hadoops_names(failed: bool, key: str) -> None:
    assert duration("op_rename", 12, failed=failed) == IOStatistics(
        counters={"op_rename": 1, key: 1},
        minimums={f"{key}.min": 12},
        maximums={f"{key}.max": 12},
        meanstatistics={f"{key}.mean": Mean(1, 12)},
    )


def test_durations_add_up_to_a_mean() -> None:
    total = reduce(aggregate, [duration("s", each) for each in (3, 1, 5)])
    assert total.counters == {"s": 3}
    assert (total.minimums, total.maximums) == ({"s.min": 1}, {"s.max": 5})
    assert total.meanstatistics == {"s.mean": Mean(3, 9)}


@pytest.mark.parametrize(("job", "files", "directories"), JOBS)
def test_real_tasks_are_counted_once(job: str, files: int, directories: int) -> None:
    total = aggregated(job)
    parts = manifests(job)
    assert sum(len(manifest.files) for manifest in parts) == files
    assert total.counters["committer_task_file_count"] == files
    assert total.counters["committer_task_directory_count"] == directories
    samples = sum(manifest.iostatistics is not None for manifest in parts)
    assert total.meanstatistics["committer_task_file_count"] == Mean(samples, files)


@pytest.mark.parametrize(("job", "files", "directories"), JOBS)
def test_real_extrema_hold_only_what_was_measured(job: str, files: int, directories: int) -> None:
    parts = [manifest.iostatistics for manifest in manifests(job) if manifest.iostatistics]
    total = aggregated(job)
    assert -1 not in total.minimums.values()
    assert -1 not in total.maximums.values()
    measured = {name for part in parts for name, value in part.maximums.items() if value != -1}
    assert total.maximums.keys() == measured
    for name, largest in total.maximums.items():
        assert largest == max(part.maximums[name] for part in parts)
    for name, smallest in total.minimums.items():
        assert smallest == min(part.minimums[name] for part in parts if part.minimums[name] != -1)


def test_our_statistic_names_are_hadoops_but_for_our_own_stages() -> None:
    ours = {
        value
        for name, value in vars(statistic_names).items()
        if name.isupper() and isinstance(value, str)
    }
    real = decode_success((DATA / "success" / "job_202401011200_0007.json").read_bytes(), "p")
    assert real is not None
    assert real.iostatistics is not None
    # Hadoop's StoreStatisticNames; no local job has them.
    repeated = {"store_io_throttled", "store_io_retry"}
    assert ours - real.iostatistics.counters.keys() == OWN_STAGES | repeated


def test_count_is_a_counter_alone() -> None:
    assert count("files", 3) == IOStatistics(counters={"files": 3})


some_milliseconds = st.lists(st.integers(0, 5000), max_size=5)
operations = st.lists(st.tuples(st.sampled_from("ab"), some_milliseconds, st.booleans()), max_size=10)


@given(operations)
def test_durations_that_were_added_up_are_those_of_each(
    noted: list[tuple[str, list[int], bool]],
) -> None:
    durations = Durations()
    for name, milliseconds, failed in noted:
        durations.add(name, [one / 1000 for one in milliseconds], failed=failed)
    each = [duration(name, one, failed=failed) for name, many, failed in noted for one in many]
    assert durations.statistics() == reduce(aggregate, each, IOStatistics())


def test_short_durations_are_rounded_once_not_each() -> None:
    durations = Durations()
    durations.add("op", [0.0004] * 600)
    durations.add("op", [0.0004] * 400)
    assert durations.statistics() == IOStatistics(
        {"op": 1000}, {}, {"op.min": 0}, {"op.max": 0}, {"op.mean": Mean(1000, 400)}
    )
