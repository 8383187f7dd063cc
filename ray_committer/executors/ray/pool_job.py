"""One commit's use of a worker pool: ready workers, items in progress, and what must run again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError

from ray_committer.errors import CommitStateUnknownError, RayNotAvailableError
from ray_committer.events import EventSink, ShardRequeued, WorkerLost, WorkerStarted
from ray_committer.executors.base import OpenResources, Parked, Place, Result, Supplied, Work
from ray_committer.executors.ray.cluster import calls
from ray_committer.executors.ray.handles import Actor, Fetched, Method, Ref
from ray_committer.executors.ray.host import HostedLimit
from ray_committer.executors.ray.pool import Member, WorkerPool
from ray_committer.executors.ray.processes import stage_of
from ray_committer.executors.ray.shared_pool import SharedWorkerPool
from ray_committer.version import __version__

DEPTH = 2
MAX_LOSSES = 20
_FAILED_STARTS = 3
_CAUSE_LENGTH = 200
_LOST = (ActorDiedError, ActorUnavailableError)


@dataclass(slots=True)
class _Seat:
    """A worker's slot in this commit.

    `step` counts what the worker has done before its first item: open the resources, then each
    admission check.
    """

    member: Member
    step: int = 0
    pending: Ref = None
    running: int = 0
    seconds: float | None = None
    since: float = field(default_factory=time.monotonic)
    place: Place | None = None

    @property
    def name(self) -> str:
        return f"worker {self.member.number}"


@dataclass(frozen=True, slots=True)
class _Running:
    """An item that a worker works on, and the reference of its parked result, if it has one."""

    seat: _Seat
    item: object
    parked: Ref


_Call = Callable[[Method, str, Ref, object], tuple[Ref, Ref]]
"""Calls a worker for a commit, with work and an item; returns the references of both results."""


def _call_run(run: Method, key: str, work: Ref, item: object) -> tuple[Ref, Ref]:
    if isinstance(item, Supplied):
        return run.remote(key, work, item.item, *item.parked), None
    return run.remote(key, work, item), None


def _call_park(park: Method, key: str, work: Ref, item: object) -> tuple[Ref, Ref]:
    ref, parked = park.remote(key, work, item)
    return ref, parked


class PoolJob:
    """Runs the work of one commit (`key`) on the workers of `pool`."""

    def __init__(
        self,
        pool: WorkerPool | SharedWorkerPool,
        key: str,
        open_resources: OpenResources,
        limit: HostedLimit,
        sink: EventSink,
        about: str = "",
    ) -> None:
        self.pool = pool
        self._key = key
        self._open_resources = open_resources
        self._limit = limit
        self._sink = sink
        self._about = about
        self._admission: list[tuple[Work[object], object]] = []
        self._seats: dict[int, _Seat] = {}
        self._failed_starts = self._losses = 0
        self._has_begun = False

    def start(self, *, first_only: bool = False) -> None:
        """Wait until every worker of the pool is ready, or the first; `RayNotAvailableError` if a worker
        that is needed does not start."""
        deadline = time.monotonic() + self.pool.options.worker_start_seconds
        while waiting := self._waiting():
            if first_only and len(waiting) < len(self._seats):
                return
            seconds = max(0.0, deadline - time.monotonic())
            ready, _ = ray.wait([seat.pending for seat in waiting], timeout=seconds)
            if not ready:
                raise self._not_started()
            self._settle(set(ready))

    def admit(self, check: Work[object], item: object) -> None:
        """Run a check on every worker, and on each later replacement before it gets work."""
        with calls():
            self._admission.append((check, item))
            while waiting := [seat for seat in self._waiting() if seat.step > 0]:
                ready, _ = ray.wait([seat.pending for seat in waiting])
                self._settle(set(ready))

    def run(self, work: Work[Result], items: Iterable[object]) -> Iterator[Result]:
        """Run work over items, each at least once; yield every result once."""
        name = self._task_name(work)
        for result, _ in self._run(work, items, _call_run, lambda actor: actor.run.options(name=name)):
            yield result

    def park(
        self, work: Work[tuple[Result, bytes]], items: Iterable[object]
    ) -> Iterator[tuple[Result, Parked]]:
        """`run` for work with two results; the second one is not fetched."""
        name = self._task_name(work)
        return self._run(
            work, items, _call_park, lambda actor: actor.park.options(name=name, num_returns=2)
        )

    def _task_name(self, work: Work[object]) -> str:
        return f"{stage_of(work)} of {self._about}"

    def _run(
        self,
        work: Work[object],
        items: Iterable[object],
        call: _Call,
        method: Callable[[Actor], Method],
    ) -> Iterator[tuple[Fetched, Ref]]:
        with calls():
            shared_work = ray.put(work)
        waiting = iter(items)
        again: deque[object] = deque()
        running: dict[Ref, _Running] = {}
        methods: dict[int, Method] = {}

        def begin(seat: _Seat, item: object) -> None:
            number = seat.member.number
            if number not in methods:
                methods[number] = method(seat.member.actor)
            ref, parked = call(methods[number], self._key, shared_work, item)
            running[ref] = _Running(seat, item, parked)

        try:
            while True:
                with calls():
                    starting = [seat.pending for seat in self._waiting()]
                    if self._feed(begin, waiting, again) and not running:
                        return
                    ready, _ = ray.wait([*running, *starting], timeout=self._patience(running))
                    self._settle({ref for ref in ready if ref not in running})
                    done = [
                        self._result(ref, running.pop(ref), again) for ref in ready if ref in running
                    ]
                for result in done:
                    yield from result
        finally:
            if running and ray.is_initialized():
                ray.wait(list(running), num_returns=len(running))

    def cancel(self) -> None:
        """Ask every worker to stop its work at the next step."""
        for member in self.pool.members:
            member.actor.cancel.remote(self._key)

    def close(self) -> None:
        """Let every worker release what it opened for this commit, and the host forget the commit."""
        for member in self.pool.members:
            member.actor.close.remote(self._key)
        self.pool.host.end(self._key)

    def _waiting(self) -> list[_Seat]:
        """Return the slots of workers that are not ready, after starting the next step of each."""
        members = self.pool.members
        for number in self._seats.keys() - {member.number for member in members}:
            del self._seats[number]
        for member in members:
            seat = self._seats.setdefault(member.number, _Seat(member))
            if seat.pending is None and seat.step <= len(self._admission):
                seat.pending = self._next_step(seat)
        return [seat for seat in self._seats.values() if seat.pending is not None]

    def _next_step(self, seat: _Seat) -> Ref:
        actor = seat.member.actor
        if seat.step == 0:
            return actor.open.remote(
                self._key,
                self._open_resources,
                self._limit,
                self._holder(seat),
                seat.name,
                __version__,
            )
        return actor.run.remote(self._key, *self._admission[seat.step - 1])

    def _settle(self, ready: set[Ref]) -> None:
        """Note the steps that ended; raise an error of a check, and replace a lost worker."""
        for seat in list(self._seats.values()):
            if seat.pending is None or seat.pending not in ready:
                continue
            try:
                found = ray.get(seat.pending)
            except _LOST as e:
                self._failed_starts += seat.step == 0
                if self._failed_starts > _FAILED_STARTS:
                    raise RayNotAvailableError(
                        f"a commit worker could not start; check that ray-committer {__version__} "
                        f"is installed on all nodes: {e}"
                    ) from e
                self._lose(seat, e)
                continue
            if seat.step == 0:
                seat.place = found
                self._has_begun = True
                self._sink(WorkerStarted(seat.name, found.node, found.process))
            seat.pending = None
            seat.step += 1

    def _feed(
        self,
        begin: Callable[[_Seat, object], None],
        waiting: Iterator[object],
        again: deque[object],
    ) -> bool:
        """Give items to ready workers, first to those with the fewest; True if no item is left."""
        depths = self._depths()
        for level in range(DEPTH):
            for seat, depth in depths:
                if seat.running > level or level >= depth:
                    continue
                try:
                    item = again.popleft() if again else next(waiting)
                except StopIteration:
                    return True
                begin(seat, item)
                seat.running += 1
        return False

    def _depths(self) -> list[tuple[_Seat, int]]:
        """Return the ready workers, each with its depth; one slower than twice the median gets 1."""
        ready = [seat for seat in self._seats.values() if seat.pending is None]
        known = [seat.seconds for seat in ready if seat.seconds is not None]
        slow = 2 * median(known) if known else float("inf")
        return [(seat, 1 if (seat.seconds or 0.0) > slow else DEPTH) for seat in ready]

    def _result(self, ref: Ref, ended: _Running, again: deque[object]) -> list[tuple[Fetched, Ref]]:
        """Return the results of a call that ended; empty if its item must run again."""
        seat, item = ended.seat, ended.item
        seat.running -= 1
        try:
            seconds, result = ray.get(ref)
        except _LOST as e:
            again.appendleft(item)
            self._lose(seat, e)
            self._sink(ShardRequeued(seat.name))
            return []
        except ObjectLostError:
            if not isinstance(item, Supplied):
                raise
            again.appendleft(Supplied(item.item, (None,) * len(item.parked)))
            return []
        seat.seconds = seconds if seat.seconds is None else 0.5 * (seat.seconds + seconds)
        return [(result, ended.parked)]

    def _lose(self, seat: _Seat, cause: Exception) -> None:
        """Fence and replace a lost worker; `CommitStateUnknownError` if the commit has lost too many."""
        if self._seats.pop(seat.member.number, None) is not None:
            self._losses += 1
            place = seat.place or Place(seat.name, "", 0)
            cause_line = str(cause).strip().partition("\n")[0][:_CAUSE_LENGTH]
            self._sink(WorkerLost(place.worker, place.node, place.process, cause_line))
        if self._losses > MAX_LOSSES:
            raise CommitStateUnknownError(
                f"{self._losses} commit workers were lost, the last with: {cause}; fix the cluster and "
                f"run the same command to finish"
            ) from cause
        self._limit.expel(self._holder(seat))
        self.pool.replace(seat.member, cause)

    def _holder(self, seat: _Seat) -> str:
        return f"worker-{self._key}-{seat.member.number}"

    def _patience(self, running: dict[Ref, _Running]) -> float | None:
        """Return how long to wait: without end while work runs, but not for workers that never start."""
        if running or any(seat.pending is None for seat in self._seats.values()):
            return None
        seconds = self.pool.options.worker_start_seconds
        if all(time.monotonic() - seat.since > seconds for seat in self._seats.values()):
            if not self._has_begun:
                raise self._not_started()
            raise CommitStateUnknownError(
                f"all commit workers were lost and none started again within {seconds:g} s; fix the "
                f"cluster and run the same command to finish"
            )
        return 1.0

    def _not_started(self) -> RayNotAvailableError:
        options = self.pool.options
        return RayNotAvailableError(
            f"not all of {self.pool.size} commit workers started within "
            f"{options.worker_start_seconds:g} s: each needs {options.worker_cpus:g} CPU, and Ray has "
            f"{ray.available_resources()}; free some CPUs, or lower worker_cpus or workers"
        )
