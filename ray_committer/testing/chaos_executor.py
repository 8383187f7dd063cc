"""An executor that does to work what a cluster may do to it, drawn from a seed.

Work may run twice, at the same time, out of order, or be cut off in the middle with its worker; only the
result of each item arrives exactly once. A commit that is right on this executor is right on Ray. If two
runs overlap, they take turns at their store calls as the seed decides, so a failure can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from random import Random
from typing import Any

from ray_committer.executors.base import Item, Result, Work, call
from ray_committer.executors.inline import InlineExecutor
from ray_committer.limits.permits import Permits
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.faults import StoreCall, WrappedStore

LOST_WORKERS = 3
LAST_BREATH_CALLS = 8

OpenWorker = Callable[[StoreOperations, Permits], Any]


class WorkerDied(BaseException):
    """The worker died here, with everything in its memory; the store and the driver continue."""


class Chaos(StrEnum):
    """What happens to one item of work."""

    NOTHING = "nothing"
    TWICE_IN_A_ROW = "twice in a row"
    TWICE_AT_ONCE = "twice at once"
    RESULT_LOST = "result lost"
    WORKER_LOST = "worker lost"


@dataclass(frozen=True, slots=True)
class Happened:
    """What was done to an item, for reports."""

    work: str
    chaos: Chaos


class ChaosExecutor(InlineExecutor):
    """A `WorkExecutor` that runs work at least once, in a seeded disorder. `open_worker` opens a
    worker's resources on `store` with a hook that can kill it; `LOST_WORKERS` at most are killed, so a
    commit on a healthy store ends. Chaos is drawn from `kinds`, which can repeat one. `happened` records
    what was done to each item, in order."""

    name = "chaos"
    width = 3

    def __init__(
        self,
        store: StoreOperations,
        open_worker: OpenWorker,
        *,
        seed: int,
        kinds: Sequence[Chaos] = tuple(Chaos),
    ) -> None:
        self.happened: list[Happened] = []
        self._store = store
        self._open_worker = open_worker
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._lives = LOST_WORKERS
        self._kinds = kinds
        self._checks: list[Callable[[Any], object]] = []
        self._workers: list[_Mortal] = []
        self._is_cancelled = False
        super().__init__(lambda permits: open_worker(store, permits))

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting = iter(items)
        while window := list(islice(waiting, self.width)):
            # Within a window only, as on a cluster: no item waits for all others.
            self._random.shuffle(window)
            done = [self._run(work, item) for item in window]
            for outcome in done:
                yield outcome.result()

    def admit_workers(self, check: Work[Result], item: Item) -> None:
        super().admit_workers(check, item)
        self._checks.append(lambda resources: check(resources, item))
        for worker in self._workers:
            check(worker.resources, item)

    def cancel(self) -> None:
        self._is_cancelled = True
        super().cancel()
        for worker in tuple(self._workers):
            worker.resources.cancel()

    def _run(self, work: Work[Result], item: Item) -> Future[Result]:
        chaos = self._random.choice(self._kinds)
        # Drawn all the same, so that the later draws do not depend on how many workers are left.
        if chaos is Chaos.WORKER_LOST and not self._lives:
            chaos = Chaos.RESULT_LOST
        function = getattr(work, "func", work)
        self.happened.append(Happened(getattr(function, "__name__", repr(function)), chaos))
        match chaos:
            case Chaos.NOTHING:
                return _try(work, self._worker(), item)
            case Chaos.TWICE_AT_ONCE:
                return self._random.choice(self._run_twice_at_once(work, item))
            case Chaos.WORKER_LOST:
                return self._lose_worker(work, item)
        first, second = (_try(work, self._worker(), item) for _ in range(2))
        return first if chaos is Chaos.TWICE_IN_A_ROW else second

    def _lose_worker(self, work: Work[Result], item: Item) -> Future[Result]:
        """Let the worker die at one of its next store calls, or with its result."""
        self._lives -= 1
        victim = self._worker()
        victim.calls_to_live = self._random.randrange(LAST_BREATH_CALLS)
        try:
            _try(work, victim, item)
        except WorkerDied:
            pass
        finally:
            # Also if it lived through its calls: what it knew of directories is gone with its memory.
            self._workers.remove(victim)
        return _try(work, self._worker(), item)

    def _run_twice_at_once(self, work: Work[Result], item: Item) -> list[Future[Result]]:
        """Run on two workers in two threads; raise the death of the whole process here."""
        first = self._worker()
        workers = [first, self._worker(other_than=first)]
        turns = _Turns(self._random)
        outcomes: dict[int, Future[Result] | BaseException] = {}

        def run(number: int) -> None:
            turns.start(number)
            try:
                outcomes[number] = _try(work, workers[number], item)
            except BaseException as e:  # noqa: BLE001 - raised again in the calling thread
                outcomes[number] = e
            finally:
                turns.leave(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for number, worker in enumerate(workers):
            # Set before either thread starts, so that the order of the first calls is the seed's, too.
            worker.wait_for_turn = partial(turns.pass_on, number)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.wait_for_turn = _go_on
        return [_survived(outcomes[number]) for number in range(2)]

    def _worker(self, other_than: _Mortal | None = None) -> _Mortal:
        """One of the workers, or a new one if there are fewer than `width`."""
        free = [worker for worker in self._workers if worker is not other_than]
        chosen = self._random.randrange(max(self.width, 2))
        if chosen < len(free):
            return free[chosen]
        worker = _Mortal(self._store, self._open_worker, self.permits)
        for check in self._checks:
            check(worker.resources)
        self._workers.append(worker)
        if self._is_cancelled:
            worker.resources.cancel()
        return worker


class _Mortal:
    """One worker: its resources, on a store that can kill it before or after a call."""

    def __init__(self, store: StoreOperations, open_worker: OpenWorker, permits: Permits) -> None:
        self.calls_to_live: int | None = None
        self.wait_for_turn: Callable[[], None] = _go_on
        wrapped = WrappedStore(store, before=self._before, after=self._breathe)
        self.resources = open_worker(wrapped, permits)

    def _before(self, call: StoreCall) -> None:
        self.wait_for_turn()
        self._breathe(call)

    def _breathe(self, call: StoreCall) -> None:
        if self.calls_to_live is None:
            return
        if self.calls_to_live == 0:
            raise WorkerDied(call)
        self.calls_to_live -= 1


class _Turns:
    """Decide which of two threads runs: it is drawn again at each store call."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._changed = threading.Condition()
        self._running = [0, 1]
        self._turn = random.randrange(2)

    def start(self, number: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number)

    def pass_on(self, number: int) -> None:
        """End a turn and wait for the next."""
        with self._changed:
            self._draw()
            self._changed.wait_for(lambda: self._turn == number)

    def leave(self, number: int) -> None:
        """End the last turn."""
        with self._changed:
            self._running.remove(number)
            self._draw()

    def _draw(self) -> None:
        if self._running:
            self._turn = self._random.choice(self._running)
        self._changed.notify_all()


def _try(work: Work[Result], worker: _Mortal, item: Item) -> Future[Result]:
    outcome: Future[Result] = Future()
    try:
        outcome.set_result(call(work, worker.resources, item))
    except Exception as e:  # noqa: BLE001 - raised again when the result is asked for
        outcome.set_exception(e)
    return outcome


def _survived(outcome: Future[Result] | BaseException) -> Future[Result]:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _go_on() -> None:
    """Do not wait for a turn."""
