"""One commit's use of a worker pool: who is ready, who works on what, and what must run again."""

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
    """A worker's part in this commit.

    `step` counts what it still has to do first: open the resources, then the admission checks.
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
    """An item that a worker works on, and its result that will stay there, if it has one."""

    seat: _Seat
    item: object
    parked: Ref


_Call = Callable[[Method, str, Ref, object], tuple[Ref, Ref]]
"""Calls a worker for a commit, with work and an item; the references of both results."""


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
        """Wait until every worker of the pool is ready, or one; `RayNotAvailableError` if one that is
        waited for does not start."""
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
        """Run a check on every worker, and on each that replaces one later before it gets work."""
        with calls():
            self._admission.append((check, item))
            while waiting := [seat for seat in self._waiting() if seat.step > 0]:
                ready, _ = ray.wait([seat.pending for seat in waiting])
                self._settle(set(ready))

    def run(self, work: Work[Result], items: Iterable[object]) -> Iterator[Result]:
        """Run work over items; at least once each, every result yielded once."""
        name = self._task_name(work)
        for result, _ in self._run(work, items, _call_run, lambda actor: actor.run.options(name=name)):
            yield result

    def park(
        self, work: Work[tuple[Result, bytes]], items: Iterable[object]
    ) -> Iterator[tuple[Result, Parked]]:
        """`run` for work with two results, the second of which is not fetched."""
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
        """Let every worker give back what it had opened for this commit, and the host forget it."""
        for member in self.pool.members:
            member.actor.close.remote(self._key)
        self.pool.host.end(self._key)

    def _waiting(self) -> list[_Seat]:
        """The seats of workers that are not ready, each with its next step under way."""
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
        """Note the steps that ended; an error of a check is raised, a lost worker replaced."""
        for seat in list(self._seats.values()):
            if seat.pending is None or seat.pending not in ready:
                continue
            try:
                found = ray.get(seat.pending)
            except _LOST as e:
                self._failed_starts += seat.step == 0
                if self._failed_starts > _FAILED_STARTS:
                    raise RayNotAvailableError(
                        f"a commit worker could not start; is ray-committer {__version__} "
                        f"installed on all nodes? {e}"
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
        """Give each ready worker what it lacks, those with the least first; True if no item is left."""
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
        """The ready workers; one that takes twice the median is given one item at a time."""
        ready = [seat for seat in self._seats.values() if seat.pending is None]
        known = [seat.seconds for seat in ready if seat.seconds is not None]
        slow = 2 * median(known) if known else float("inf")
        return [(seat, 1 if (seat.seconds or 0.0) > slow else DEPTH) for seat in ready]

    def _result(self, ref: Ref, ended: _Running, again: deque[object]) -> list[tuple[Fetched, Ref]]:
        """The results of a call that ended, or none if its item must run again."""
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
        """Have a lost worker replaced; `CommitStateUnknownError` if this commit has lost too many."""
        if self._seats.pop(seat.member.number, None) is not None:
            self._losses += 1
            place = seat.place or Place(seat.name, "", 0)
            cause_line = str(cause).strip().partition("\n")[0][:_CAUSE_LENGTH]
            self._sink(WorkerLost(place.worker, place.node, place.process, cause_line))
        if self._losses > MAX_LOSSES:
            raise CommitStateUnknownError(
                f"{self._losses} commit workers were lost, the last with: {cause}; mend the cluster and "
                f"run the same command"
            ) from cause
        self._limit.expel(self._holder(seat))
        self.pool.replace(seat.member, cause)

    def _holder(self, seat: _Seat) -> str:
        return f"worker-{self._key}-{seat.member.number}"

    def _patience(self, running: dict[Ref, _Running]) -> float | None:
        """How long to wait: without end while work is done, but not for workers that never start."""
        if running or any(seat.pending is None for seat in self._seats.values()):
            return None
        seconds = self.pool.options.worker_start_seconds
        if all(time.monotonic() - seat.since > seconds for seat in self._seats.values()):
            if not self._has_begun:
                raise self._not_started()
            raise CommitStateUnknownError(
                f"all commit workers were lost and none started again within {seconds:g} s; mend the "
                f"cluster and run the same command"
            )
        return 1.0

    def _not_started(self) -> RayNotAvailableError:
        options = self.pool.options
        return RayNotAvailableError(
            f"not all of {self.pool.size} commit workers started within "
            f"{options.worker_start_seconds:g} s: each asks Ray for {options.worker_cpus:g} CPU, "
            f"{ray.available_resources()} is available; free some, or lower worker_cpus or workers"
        )
