"""How much processor time does a file cost in a whole commit, whatever the shape of the job?

From call to return, by threads of one process whose driver has loaded what tasks wrote when they ended:
128 requests in flight, of 20 ms each. The priced store is in this process, so what it computes counts.
Beside them stands what 10,000 renames on it cost by as many threads that do nothing else, and what the
renames of directories cost of a job whose partitions are new.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import harness
from one_file_tasks import TreesGoAtOnce
from peer_committers import Ours
from peer_jobs import Place, Shape
from rename_cpu import DIRECTORIES, FILES, FILES_A_TASK, SECONDS, TASKS, pairs_of

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore

BY_FILE = (Shape(2_000, 1), Shape(20, 500, existing=True), Shape(94_499, 1))
WHOLE = (Shape(20, 500), Shape(200, 500, 500))
"""Jobs whose partitions are put in place by one rename each."""
IN_FLIGHT = 128
MOST_FILES = 10_000
"""Larger jobs are committed once, without a warm-up."""
MOST = dict.fromkeys(BY_FILE, 110.0) | dict.fromkeys(WHOLE, 30.0)
"""Microseconds of a file."""


def commit(root: Path, shape: Shape) -> dict[str, float]:
    """One commit, from call to return."""
    place = Place("priced", f"file://{root}", str(root), LocalStore(StoreSpec("file")), SECONDS)
    committer = Ours("ours", IN_FLIGHT, store=partial(TreesGoAtOnce, trash=root.parent))
    place.clear()
    committer.write(place, shape)
    gc.collect()  # what the tasks have left is not the commit's to collect
    used, begun = time.process_time(), time.monotonic()
    counted = committer.commit(place)
    used, seconds = time.process_time() - used, time.monotonic() - begun
    place.check(shape)
    return {
        "microseconds_a_file": used / shape.all_files * 1e6,
        "seconds": seconds,
        "requests_a_file": counted["requests"] / shape.all_files,
        "whole": counted["whole"],
    }


def several(root: Path, shape: Shape) -> dict[str, Any]:
    """Rounds of commits of one shape."""
    measure = partial(commit, root, shape)
    if shape.all_files <= MOST_FILES:
        return harness.rounds(measure)
    once = [measure()]
    return {"rounds": once, "median": harness.medians(once)}


def only_requests(root: Path) -> dict[str, float]:
    """Renames on the priced store, by threads that do nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    return {
        "microseconds_a_file": by_threads(harness.PricedStore(SECONDS).rename, pairs_of(root, job))
        / FILES
    }


def only_moves(root: Path, shape: Shape) -> dict[str, float]:
    """The same for the directories of a job, which are empty here."""
    shutil.rmtree(root, ignore_errors=True)
    pairs = [(f"{root}/in{own}", f"{root}{own}") for own in shape.directories]
    for source, _ in pairs:
        os.makedirs(source)
    used = by_threads(harness.PricedStore(SECONDS).move_whole, pairs)
    return {"microseconds_a_file": used / shape.all_files, "microseconds_a_move": used / len(pairs)}


def by_threads(request: Callable[[str, str], object], pairs: Iterable[tuple[str, str]]) -> float:
    """Microseconds of processor time for a request for each pair."""
    left = iter(pairs)

    def work(_: int) -> None:
        for source, dest in left:
            request(source, dest)

    begun = time.process_time()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(work, range(IN_FLIGHT)))
    return (time.process_time() - begun) * 1e6


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="commit-cpu-")) / "table"
    requests = harness.rounds(partial(only_requests, root))
    moves = {str(shape): harness.rounds(partial(only_moves, root, shape)) for shape in WHOLE}
    commits = {str(shape): several(root, shape) for shape in MOST}
    shutil.rmtree(root.parent)
    harness.save(
        "commit_cpu",
        __doc__,
        {"in_flight": IN_FLIGHT, "only_requests": requests, "only_moves": moves, "commits": commits},
        {
            f"a file of {shape}, microseconds": (
                commits[str(shape)]["median"]["microseconds_a_file"],
                "<=",
                most,
            )
            for shape, most in MOST.items()
        },
    )


if __name__ == "__main__":
    main()
