"""Processes at one job that Hadoop's S3A committer left, stopped or killed at their requests.

Two adopt and commit it, or one does while another aborts it. Whoever is killed, the job ends as a whole:
all its files are visible once it is committed, and none if it was aborted, and no upload is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.jobs import open_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.uploads import pending_uploads
from ray_committer.testing import visible_files
from tests.commits.test_adopted_jobs import FILES, TABLE, TASKS, URL, UUID, write_task
from tests.machines.processes import STOPPED, Child, Stop, Told, attempt, start
from tests.machines.schedules import Fate
from tests.servers.fake_s3 import FakeS3, FakeS3Server, direct_store
from tests.tiers import RANGE

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

PARTS = 24
STRIDE = 11
HOW = CommitOptions(expected_tasks=len(TASKS), conflict_wait_seconds=0.05)
WHENS = ("before", "after")


def with_store(work: Callable[[], str], store: StoreOperations) -> str:
    open_job.open_store = lambda *_, **__: store  # type: ignore[assignment]
    return work()


def commit() -> str:
    return ray_committer.commit_job(URL, UUID, executor="inline", options=HOW).outcome.value


def abort() -> str:
    return "aborted" if ray_committer.abort_job(URL, UUID) else "nothing was left"


PAIRS = [(commit, commit), (commit, abort), (abort, commit), (abort, abort)]


def begin(spec: StoreSpec, work: Callable[[], str], stop: Stop | None, *, trusts: bool) -> Child:
    return start(partial(with_store, work), spec, stop, trusts=trusts)


def ended(child: Child) -> Told:
    word = child.read()
    child.reap()
    return word or Told("crashed", -1, "the process died")


def set_up(fake: FakeS3) -> None:
    fake.clear()
    fake.buckets["bucket"] = {}
    for task in TASKS:
        write_task(fake, task)
    fake.requests.clear()


def run(
    fake: FakeS3, spec: StoreSpec, works: tuple[Callable[[], str], ...], stop: Stop, fate: Fate
) -> bool:
    """Run one schedule; False if the first process made fewer requests."""
    set_up(fake)
    begun = partial(begin, spec, trusts=fate is Fate.STOPPED)
    first = begun(works[0], stop)
    word = first.read()
    was_stopped = word == STOPPED
    if was_stopped and fate is Fate.KILLED:
        first.kill()
    answers = {"second": ended(begun(works[1], None))}
    if was_stopped and fate is not Fate.KILLED:
        first.resume()
        word = first.read()
    first.reap()
    if not (was_stopped and fate is Fate.KILLED):
        answers["first"] = word or Told("crashed", -1, "the process died")
    judge(fake, spec, answers, (works, stop, fate))
    return was_stopped


def judge(fake: FakeS3, spec: StoreSpec, answers: dict[str, Told], what: object) -> None:
    """End the job by both commands, and compare what is visible with what the processes were told."""
    told = [one.text for one in answers.values() if one.how == "ended"]
    assert not [one for one in answers.values() if one.how == "crashed"], (what, answers)
    last = ended(begin(spec, commit, None, trusts=False))
    give_up = ended(begin(spec, abort, None, trusts=False))
    found = attempt(lambda store: visible_files(store, TABLE), direct_store(fake)).text
    shown = {name: data for name, data in found.items() if not name.startswith("__magic")}
    committed = {"committed", "already committed"}
    assert shown in ({}, FILES), (what, answers, last, shown)
    if committed & {*told, last.text if last.how == "ended" else ""}:
        assert shown == FILES, (what, answers, last)
    if "aborted" in told:
        assert shown == {}, (what, answers, last)
    left = [one.path for one in pending_uploads(direct_store(fake), "/") if ".probe-" not in one.path]
    assert left == [], (what, answers, last, give_up)
    names = [one for one in fake.buckets["bucket"] if "__magic" in one or "_temporary" in one]
    assert names == [], (what, answers, last, give_up)


def _parts() -> list[object]:
    chosen = (RANGE + 9) % PARTS  # a commit that sleeps while the job is aborted
    wide = (pytest.mark.wide,)
    return [pytest.param(part, marks=() if part == chosen else wide) for part in range(PARTS)]


@pytest.mark.parametrize("part", _parts())
def test_no_schedule_ends_in_what_must_not_be(
    fake_server: FakeS3Server, fake_spec: StoreSpec, part: int
):
    every = itertools.product(PAIRS, Fate, WHENS)
    works, fate, when = list(every)[part]
    ran = 0
    for request in range(1 + part % STRIDE, 200, STRIDE):
        if not run(fake_server.fake, fake_spec, works, Stop(request, when), fate):
            break
        ran += 1
    assert ran >= 2
