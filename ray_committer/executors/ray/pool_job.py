"""One commit's use of a worker pool: ready workers, items in progress, and what must run again."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError

from ray_committer.errors import CommitStateUnknownError, RayNotAvailableError
from ray_committer.events import EventSink, ShardRequeued, WorkerLost, WorkerStarted
from ray_committer.executors.base import OpenResources, Place, Result, ResultRef, Supplied, Work
from ray_committer.executors.ray import cluster
from ray_committer.executors.ray.cluster import Fetched, Method, Ref, calls
from ray_committer.executors.ray.host import HostedLimit
from ray_committer.executors.ray.pool import PoolWorker, WorkerPool
from ray_committer.executors.ray.processes import stage_of
from ray_committer.executors.ray.shared_pool import SharedWorkerPool
from ray_committer.version import __version__

# While one item is worked on, the next is already with the worker, so that it never waits for a call to
# the driver. A third would only make a slow worker hold more.
DEPTH = 2
# A commit that loses more workers stands on a cluster that is ill. Each loss costs a start and a shard
# again, so without an end it could go on for hours.
MAX_LOSSES = 20
# A package that a node lacks would fail alike at each further start.
_FAILED_STARTS = 3
_CAUSE_LENGTH = 200
_LOST = (ActorDiedError, ActorUnavailableError)


@dataclass(slots=True)
class _Slot:
    """A worker's slot in this commit.

    step: how much the worker has done before its first item: opened the resources, then passed each
        admission check. pending: what its present step will answer.
    seconds: the recent time per item. since: when this slot was made. place: known after the first step.
    """

    worker: PoolWorker
    step: int = 0
    pending: Ref = None
    seconds: float | None = None
    since: float = field(default_factory=time.monotonic)
    place: Place | None = None

    @property
    def name(self) -> str:
        return f"worker {self.worker.number}"


@dataclass(frozen=True, slots=True)
class _Running:
    """An item that a worker works on, and the reference to its second result, if it has one."""

    slot: _Slot
    item: object
    ref: Ref


class PoolJob:
    """Runs the work of one commit (`key`) on the workers of `pool`. Several threads may run work at
    once. They share the slots, and each has its own items in progress."""

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
        self._lock = threading.RLock()  # again by what settles a step
        self._slots: dict[int, _Slot] = {}
        self._made: dict[int, int] = {}
        self._lost: set[int] = set()
        self._failed_starts = 0
        self._has_begun = False

    @property
    def requests(self) -> int:
        """How many requests the workers had made at their last results."""
        return sum(list(self._made.values()))

    def start(self, *, first_only: bool = False) -> None:
        """Wait until every worker of the pool is ready, or the first; `RayNotAvailableError` if a worker
        that is needed does not start."""
        deadline = time.monotonic() + cluster.WORKER_START_SECONDS
        while starting := self._starting():
            if first_only and len(starting) < len(self._slots):
                return
            seconds = max(0.0, deadline - time.monotonic())
            ready, _ = ray.wait(starting, timeout=seconds)
            if not ready:
                raise self._not_started()
            self._settle(set(ready))

    def admit(self, check: Work[object], item: object) -> None:
        """Run a check on every worker, and on each later replacement before it gets work."""
        with calls():
            # Noted before any worker is asked: a replacement that starts meanwhile has it as a step.
            self._admission.append((check, item))
            # From step 1 on: a worker that is still opening its resources does not hold up the commit.
            # It passes the check before its first item anyway.
            while starting := self._starting(least=1):
                ready, _ = ray.wait(starting)
                self._settle(set(ready))

    def run(self, work: Work[Result], items: Iterable[object]) -> Iterator[Result]:
        """Run work over items, each at least once; yield every result once."""
        for result, _ in self._run(work, items, "run"):
            yield result

    def run_with_ref(
        self, work: Work[tuple[Result, bytes]], items: Iterable[object]
    ) -> Iterator[tuple[Result, ResultRef]]:
        """`run` for work with two results; the second one is not fetched."""
        return self._run(work, items, "run_with_ref", results=2)

    def _run(
        self, work: Work[object], items: Iterable[object], method: str, *, results: int = 1
    ) -> Iterator[tuple[Fetched, Ref]]:
        with calls():
            # Once per stage, not per call: the work has the job's context, an item only its own share.
            shared_work = ray.put(work)
        name, waiting = f"{stage_of(work)} of {self._about}", iter(items)
        again: deque[object] = deque()
        running: dict[Ref, _Running] = {}
        # `options` copies the remote method, and a handle may be called thousands of times.
        methods: dict[int, Method] = {}

        def begin(slot: _Slot, item: object) -> None:
            number = slot.worker.number
            if number not in methods:
                method_of_actor = getattr(slot.worker.actor, method)
                methods[number] = method_of_actor.options(name=name, num_returns=results)
            arguments = (item.item, *item.refs) if isinstance(item, Supplied) else (item,)
            refs = methods[number].remote(self._key, shared_work, *arguments)
            result, ref = refs if results > 1 else (refs, None)
            running[result] = _Running(slot, item, ref)

        try:
            while True:
                with calls():
                    starting = self._starting()
                    # Counted anew each round: the calls of a lost worker have left `running`.
                    given = Counter(call.slot.worker.number for call in running.values())
                    # `_feed` says that no item is left. Those in progress can still come back through
                    # `again`, so the end is only when none runs.
                    if self._feed(begin, given, waiting, again) and not running:
                        return
                    ready, _ = ray.wait([*running, *starting], timeout=self._patience(running))
                    # Steps before results: the error of a check comes before any further result counts.
                    self._settle({ref for ref in ready if ref not in running})
                    done = [
                        self._result(ref, running.pop(ref), again) for ref in ready if ref in running
                    ]
                # Outside `calls`: what the caller does with a result is not a failure of Ray.
                for result in done:
                    yield from result
        finally:
            # An error leaves only after the items in progress have ended, as `WorkExecutor` promises:
            # whoever handles it must not meet moves that still go on.
            if running and ray.is_initialized():
                ray.wait(list(running), num_returns=len(running))

    def cancel(self) -> None:
        # Without waiting for an answer: a worker that hangs must not hold the others' cancellation.
        for worker in self.pool.workers:
            worker.actor.cancel.remote(self._key)

    def close(self) -> None:
        """Let every worker release what it opened for this commit, and the host forget the commit."""
        for worker in self.pool.workers:
            worker.actor.close.remote(self._key)
        self.pool.host.end(self._key)

    def _starting(self, least: int = 0) -> list[Ref]:
        """Start the next step of each worker that is not ready; return the answers from `least` on."""
        with self._lock:
            workers = self.pool.workers
            # Another commit on this pool, or another driver, may have replaced a worker unseen.
            for number in self._slots.keys() - {worker.number for worker in workers}:
                del self._slots[number]
            for worker in workers:
                slot = self._slots.setdefault(worker.number, _Slot(worker))
                if slot.pending is None and not self._is_ready(slot):
                    slot.pending = self._next_step(slot)
            steps = [slot for slot in self._slots.values() if slot.step >= least]
            return [slot.pending for slot in steps if slot.pending is not None]

    def _is_ready(self, slot: _Slot) -> bool:
        """Whether the worker has opened the resources and passed all admission checks."""
        return slot.step > len(self._admission)

    def _next_step(self, slot: _Slot) -> Ref:
        actor = slot.worker.actor
        if slot.step == 0:
            return actor.open.remote(
                self._key, self._open_resources, self._limit, self._holder(slot), slot.name, __version__
            )
        return actor.run.remote(self._key, *self._admission[slot.step - 1])

    def _settle(self, ready: set[Ref]) -> None:
        """Note the steps that ended; raise an error of a check, and replace a lost worker."""
        with self._lock:
            for slot in list(self._slots.values()):
                if slot.pending is not None and slot.pending in ready:
                    self._settle_step(slot)

    def _settle_step(self, slot: _Slot) -> None:
        try:
            answer = ray.get(slot.pending)
        except _LOST as e:
            self._failed_starts += slot.step == 0
            # Only those that died before they opened anything: one lost at work shows no bad node.
            if self._failed_starts > _FAILED_STARTS:
                raise RayNotAvailableError(
                    "a commit worker could not start",
                    f"check that ray-committer {__version__} is installed on all nodes: {e}",
                ) from e
            self._lose(slot, e)
            return
        if slot.step == 0:
            slot.place = answer
            self._has_begun = True
            self._sink(WorkerStarted(slot.name, answer.node, answer.process))
        else:
            self._note_made(slot, answer[1])
        # Only now: an error of the check leaves the step pending, so each later caller meets it, too.
        slot.pending = None
        slot.step += 1

    def _feed(
        self,
        begin: Callable[[_Slot, object], None],
        given: Counter[int],
        waiting: Iterator[object],
        again: deque[object],
    ) -> bool:
        """Give items to ready workers, first to those with the fewest; True if no item is left."""
        depths = self._depths()
        # Level by level: each ready worker has one item before any has two, also near the end.
        for level in range(DEPTH):
            for slot, depth in depths:
                if given[slot.worker.number] > level or level >= depth:
                    continue
                try:
                    # Items that run again go first, since they began earliest. The rest is read only
                    # when a worker is free: the driver never holds all items.
                    item = again.popleft() if again else next(waiting)
                except StopIteration:
                    return True
                begin(slot, item)
                given[slot.worker.number] += 1
        return False

    def _depths(self) -> list[tuple[_Slot, int]]:
        """Return the ready workers, each with its depth; one slower than twice the median gets 1."""
        with self._lock:
            ready = [slot for slot in self._slots.values() if self._is_ready(slot)]
        known = [slot.seconds for slot in ready if slot.seconds is not None]
        # The median and not the mean: one stalled worker must not make all others look fast. A worker
        # without a result is not called slow.
        slow = 2 * median(known) if known else float("inf")
        return [(slot, 1 if (slot.seconds or 0.0) > slow else DEPTH) for slot in ready]

    def _result(self, ref: Ref, ended: _Running, again: deque[object]) -> list[tuple[Fetched, Ref]]:
        """Return the results of a call that ended; empty if its item must run again."""
        slot, item = ended.slot, ended.item
        try:
            seconds, made, result = ray.get(ref)
        except _LOST as e:
            # Back in the queue before the replacement, which may raise: then the caller sees the error,
            # and no item is counted as done. The lost worker may have done it, so work is idempotent.
            again.appendleft(item)
            self._lose(slot, e)
            self._sink(ShardRequeued(slot.name))
            return []
        except ObjectLostError:
            # Only what was supplied can be missing without harm: the work reads its manifests again.
            if not isinstance(item, Supplied):
                raise
            again.appendleft(Supplied(item.item, (None,) * len(item.refs)))
            return []
        self._note_made(slot, made)
        # Half of the past goes each time: a node that was slow for a moment soon gets two items again.
        slot.seconds = seconds if slot.seconds is None else 0.5 * (slot.seconds + seconds)
        return [(result, ended.ref)]

    def _note_made(self, slot: _Slot, made: int) -> None:
        with self._lock:
            number = slot.worker.number
            self._made[number] = max(made, self._made.get(number, 0))  # results come in no order

    def _lose(self, slot: _Slot, cause: Exception) -> None:
        """Fence and replace a lost worker; `CommitStateUnknownError` if the commit has lost too many."""
        with self._lock:
            self._slots.pop(slot.worker.number, None)
            # Several calls of one worker fail at once: it counts as one loss and one event.
            if slot.worker.number not in self._lost:
                self._lost.add(slot.worker.number)
                place = slot.place or Place(slot.name, "", 0)
                cause_line = str(cause).strip().partition("\n")[0][:_CAUSE_LENGTH]
                self._sink(WorkerLost(place.worker, place.node, place.process, cause_line))
            if len(self._lost) > MAX_LOSSES:
                raise CommitStateUnknownError(
                    f"{len(self._lost)} commit workers were lost, the last with: {cause}",
                    "fix the cluster and run the same command to finish",
                ) from cause
            # Fenced before its item runs elsewhere: a worker that is only cut off gets no permit any
            # more, and stops with its last lease.
            self._limit.fence(self._holder(slot))
            self.pool.replace(slot.worker, cause)
            self._starting()  # the new worker, so that no other thread finds that there is none

    def _holder(self, slot: _Slot) -> str:
        return f"worker-{self._key}-{slot.worker.number}"

    def _patience(self, running: dict[Ref, _Running]) -> float | None:
        """Return how long to wait: without end while work runs, but not for workers that never start."""
        with self._lock:
            slots = list(self._slots.values())
        # With work in progress the answer or the loss wakes us: a limit would end a slow store's commit.
        if running or any(map(self._is_ready, slots)):
            return None
        seconds = cluster.WORKER_START_SECONDS
        if all(time.monotonic() - slot.since > seconds for slot in slots):
            if not self._has_begun:
                raise self._not_started()
            raise CommitStateUnknownError(
                f"all commit workers were lost and none started again within {seconds:g} s",
                "fix the cluster and run the same command to finish",
            )
        # Short, to look at the deadline: `ray.wait` says nothing of an actor that waits for a CPU.
        return 1.0

    def _not_started(self) -> RayNotAvailableError:
        options = self.pool.options
        return RayNotAvailableError(
            f"not all of {self.pool.size} commit workers started within "
            f"{cluster.WORKER_START_SECONDS:g} s: each needs {options.worker_cpus:g} CPU, and Ray has "
            f"{ray.available_resources()}",
            "free some CPUs, or lower worker_cpus or workers",
        )
