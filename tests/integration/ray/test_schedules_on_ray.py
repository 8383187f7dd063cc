"""A commit on Ray whose workers are killed, beside another operation at the same table."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed
from ray_committer.executors.base import CommitPool
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from tests.integration.ray.jobs import commit_workers
from tests.machines.operations import (
    OLD,
    OTHER_APPEND,
    OVERWRITE,
    PARTITION,
    VACUUM,
    Job,
    Operation,
    abort,
    commit,
    prepare,
    undo,
)
from tests.machines.processes import Told, attempt
from tests.machines.serial_oracle import judge
from tests.tiers import seeds

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster", "small_shards"),
    pytest.mark.timeout(600),
]

FILES = 300
LARGE = Job("append", {f"p={number % 3}/f{number}": b"%d" % number for number in range(FILES)})
OTHERS = [commit(LARGE), undo(LARGE), abort(LARGE), VACUUM]
OTHERS += [commit(job) for job in (OTHER_APPEND, OVERWRITE, PARTITION)]


@pytest.fixture(scope="module")
def pool(ray_cluster: None) -> Iterator[CommitPool]:
    with ray_committer.commit_pool(CommitOptions(workers=2)) as pool:
        yield pool


def at(part: float, action: Callable[[], None]) -> Callable[[Event], None]:
    """A listener that does something once, when this part of the files has been renamed."""
    done: list[Event] = []

    def listen(event: Event) -> None:
        if isinstance(event, FilesRenamed) and event.done >= part * event.total and not done:
            done.append(event)
            action()

    return listen


def kill_a_worker(random: Random) -> None:
    os.kill(random.choice(commit_workers()), signal.SIGKILL)


def run(table: str, pool: CommitPool, seed: int) -> str | None:
    """One commit and what meets it; what must not be, or None."""
    random = Random(seed)
    store = LocalStore(StoreSpec("file"))
    other = random.choice(OTHERS)
    jobs = [LARGE, *([other.job] if other.job not in (None, LARGE) else [])]
    prepare(store, table, jobs, OLD)
    answers: list[tuple[Operation, Told]] = []
    meets = threading.Thread(
        target=lambda: answers.append((other, attempt(lambda one: other.run(one, table), store)))
    )
    listeners = [at(random.random(), lambda: kill_a_worker(random)), at(random.random(), meets.start)]

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    def commit_on_ray(store: StoreOperations, table: str) -> str:
        report = ray_committer.commit_job(
            table,
            LARGE.name,
            executor=pool,
            on_event=listen,
        )
        return report.outcome.value

    on_ray = Operation("commit append on Ray", LARGE, commit_on_ray, is_commit=True)
    answers.append((on_ray, attempt(lambda one: commit_on_ray(one, table), store)))
    if meets.ident is None:
        meets.start()
    meets.join()
    return judge(store, table, jobs, OLD, answers, random)


@pytest.mark.parametrize("numbers", seeds(narrow=2, wide=120))
def test_a_commit_whose_workers_are_killed_ends_as_a_serial_one(
    tmp_path: Path, pool: CommitPool, numbers: range
):
    wrong = {seed: run(f"{tmp_path}/{seed}/table", pool, seed) for seed in numbers}
    assert {seed: what for seed, what in wrong.items() if what is not None} == {}
