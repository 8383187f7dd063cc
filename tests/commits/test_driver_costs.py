"""What a commit costs its driver and the processors: counted, so it is the same on every machine.

Bytes that cross between the driver and its workers, and calls of Python functions, which stand for
time. A commit that makes more of them is slower, whatever the machine; one that makes far fewer should
lower the numbers here.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, StageEnded, StageStarted
from ray_committer.executors.base import Supplied, call
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol import plan, uri
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.testing import run_commit
from ray_committer.work import entries, packs
from ray_committer.work.worker import Worker
from tests.imagined_jobs import IdleStore, imagine

BYTES_A_MANIFEST = 550
"""Through the driver, of a manifest beside its path: its name, size, digest and counts, and what it adds
to a pack that is not full beside its entries."""
BYTES_A_PACK = 300
"""Of a pack: its name, digest and counts."""
BYTES_A_SHARD = 800
"""Of a shard beside its manifests: its event and its statistics."""
CALLS_A_FILE = 17
CALLS_A_SHARD = 145


class FarExecutor(InlineExecutor):
    """Work of one process, which counts the bytes that another one would be sent and would send back."""

    starts_workers = True
    bytes = 0

    def run(self, work: Any, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            result = call(work, self._resources, item)
            self._count(item, result)
            yield result

    def run_with_ref(self, work: Any, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            result, kept = call(work, self._resources, item)
            self._count(item, result)
            yield result, kept

    def _count(self, item: Any, result: Any) -> None:
        sent = item.item if isinstance(item, Supplied) else item
        self.bytes += len(pickle.dumps(sent)) + len(pickle.dumps(result))


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one commit: bytes between processes, and calls by stage."""

    bytes: int
    calls: dict[str, int]


def costs(dest: Path, *, tasks: int, files: int, shard_files: int) -> Costs:
    """Commit a job that has no files, and count."""
    ray_committer.setup_job(str(dest), "job_1")
    job = new_job_attempt(str(dest), "job_1", 0)
    imagine(job, tasks=tasks, files=files)
    executor = FarExecutor(lambda permits: Worker(IdleStore(), job, permits, in_driver=False))
    options = CommitOptions(validate=False)
    counted: dict[str, int] = {}
    stages = ["before"]

    def listen(event: Event) -> None:
        if isinstance(event, StageStarted):
            stages.append(event.stage)
        elif isinstance(event, StageEnded):
            stages.pop()

    def note(_frame: FrameType, kind: str, _argument: object) -> None:
        if kind == "call":
            counted[stages[-1]] = counted.get(stages[-1], 0) + 1

    sys.setprofile(note)
    try:
        with (
            patch.object(plan, "SMALLEST_SHARD", shard_files),
            patch.object(plan, "LARGEST_SHARD", shard_files),
        ):
            report = run_commit(IdleStore(), job, options, executor=executor, on_event=listen)
    finally:
        sys.setprofile(None)
    assert report.moved == tasks * files
    return Costs(executor.bytes, counted)


def test_nothing_of_a_file_goes_through_the_driver_once_a_pack_is_full(tmp_path: Path):
    with patch.object(packs, "MOST_ENTRIES", 500):
        few = costs(tmp_path / "few", tasks=10, files=500, shard_files=500)
        many = costs(tmp_path / "many", tasks=10, files=2_500, shard_files=2_500)
    assert (many.bytes - few.bytes) / 40 <= BYTES_A_PACK + BYTES_A_SHARD  # a file's paths are 200 bytes


def test_a_manifest_and_a_shard_take_so_many_bytes_of_the_driver(tmp_path: Path):
    few = costs(tmp_path / "few", tasks=10, files=40, shard_files=400)
    manifests = costs(tmp_path / "manifests", tasks=40, files=10, shard_files=400)
    shards = costs(tmp_path / "shards", tasks=10, files=40, shard_files=10)
    paths = 2 * len(str(tmp_path / "manifests"))
    assert (manifests.bytes - few.bytes) / 30 <= BYTES_A_MANIFEST + paths
    assert (shards.bytes - few.bytes) / 39 <= BYTES_A_SHARD


@pytest.mark.parametrize(
    ("stage", "most"), [(names.LOAD_MANIFESTS, CALLS_A_FILE), (names.RENAME_FILES, CALLS_A_FILE)]
)
def test_a_file_takes_so_many_calls_of_functions(tmp_path: Path, stage: str, most: int):
    few = costs(tmp_path / "few", tasks=2, files=200, shard_files=400)
    many = costs(tmp_path / "many", tasks=2, files=400, shard_files=800)
    assert (many.calls[stage] - few.calls[stage]) / 400 <= most


def test_a_shard_takes_so_many_calls_of_functions(tmp_path: Path):
    few = costs(tmp_path / "few", tasks=1, files=400, shard_files=400)
    many = costs(tmp_path / "many", tasks=1, files=400, shard_files=10)
    more = many.calls[names.RENAME_FILES] - few.calls[names.RENAME_FILES]
    assert more / 39 <= CALLS_A_SHARD


def test_the_calls_of_a_commit_grow_with_its_files_and_no_faster(tmp_path: Path):
    """A sum over all manifests for each shard would show here."""
    times = [
        sum(costs(tmp_path / f"{tasks}", tasks=tasks, files=10, shard_files=50).calls.values())
        for tasks in (50, 100, 200)
    ]
    first, second = times[1] - times[0], times[2] - times[1]
    assert second < 2.05 * first


CACHED = [
    function
    for module in (entries, uri)
    for function in vars(module).values()
    if hasattr(function, "cache_clear")
]


def peak_of_a_commit(dest: Path, tasks: int) -> tuple[int, int]:
    """The peak of the memory of a commit, and the size of the manifests, in bytes."""
    ray_committer.setup_job(str(dest), "job_1")
    job = new_job_attempt(str(dest), "job_1", 0)
    imagine(job, tasks=tasks, files=200)
    manifest_bytes = sum(path.stat().st_size for path in Path(job.manifests).iterdir())
    for cached in CACHED:  # what they hold is bounded
        cached.cache_clear()
    gc.collect()
    tracemalloc.start()
    try:
        run_commit(IdleStore(), job, CommitOptions(validate=False))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, manifest_bytes


@pytest.mark.slow
def test_a_commit_holds_no_object_for_each_file(tmp_path: Path):
    """Beside the bytes of the manifests, which a cache of fixed size keeps, a few bytes a file.

    In a process of its own: threads that another test has left would be counted, too.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        tasks = (2, 60, 160)  # the first commit warms up, the second fills a cache of parsed manifests
        measured = process.map(peak_of_a_commit, (tmp_path / f"{count}" for count in tasks), tasks)
        _, (few, few_bytes), (many, many_bytes) = measured
    more_tasks, more_files = 100, 100 * 200
    assert many - few - (many_bytes - few_bytes) < more_files * 40 + more_tasks * 4000
