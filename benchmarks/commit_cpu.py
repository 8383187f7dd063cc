"""How much processor time does a file cost in a whole commit, whatever the shape of the job?

From call to return, by threads of one process whose driver has loaded what tasks wrote when they ended:
128 requests in flight, of 20 ms each. The priced store is in this process, so what it computes counts.
Beside them stands what 10,000 renames on it cost by as many threads that do nothing else.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
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

SHAPES = (Shape(2_000, 1), Shape(20, 500), Shape(200, 500, 500), Shape(94_499, 1))
IN_FLIGHT = 128
MOST_FILES = 10_000
"""Larger jobs are committed once, without a warm-up."""
MOST_MICROSECONDS = 110.0


def whole(root: Path, shape: Shape) -> dict[str, float]:
    """One commit, from call to return."""
    place = Place("priced", f"file://{root}", str(root), LocalStore(StoreSpec("file")), SECONDS)
    committer = Ours("ours", IN_FLIGHT, store=partial(TreesGoAtOnce, trash=root.parent))
    place.clear()
    committer.write(place, shape)
    gc.collect()  # what the tasks have left is not the commit's to collect
    used, begun = time.process_time(), time.monotonic()
    requests = committer.commit(place)["requests"]
    used, seconds = time.process_time() - used, time.monotonic() - begun
    place.check(shape)
    files = shape.tasks * shape.files
    return {
        "microseconds_a_file": used / files * 1e6,
        "seconds": seconds,
        "requests_a_file": requests / files,
    }


def several(root: Path, shape: Shape) -> dict[str, Any]:
    """Rounds of commits of one shape."""
    measure = partial(whole, root, shape)
    if shape.tasks * shape.files <= MOST_FILES:
        return harness.rounds(measure)
    once = [measure()]
    return {"rounds": once, "median": harness.medians(once)}


def only_requests(root: Path) -> dict[str, float]:
    """Renames on the priced store, by threads that do nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    job = harness.write_job(root, tasks=TASKS, files=FILES_A_TASK, directories=DIRECTORIES)
    store, pairs = harness.PricedStore(SECONDS), iter(pairs_of(root, job))

    def rename(_: int) -> None:
        for source, dest in pairs:
            store.rename(source, dest)

    begun = time.process_time()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(rename, range(IN_FLIGHT)))
    return {"microseconds_a_file": (time.process_time() - begun) / FILES * 1e6}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="commit-cpu-")) / "table"
    requests = harness.rounds(partial(only_requests, root))
    commits = {str(shape): several(root, shape) for shape in SHAPES}
    shutil.rmtree(root.parent)
    harness.save(
        "commit_cpu",
        __doc__,
        {"in_flight": IN_FLIGHT, "only_requests": requests, "commits": commits},
        {
            f"a file of {shape}, microseconds": (
                found["median"]["microseconds_a_file"],
                "<=",
                MOST_MICROSECONDS,
            )
            for shape, found in commits.items()
        },
    )


if __name__ == "__main__":
    main()
