"""A store as a commit uses it: each request needs a permit, is timed, and waits when throttled.

The only retry layer. A store that throttles did nothing, so the same request is made again with the next
permit. A request without an answer is repeated after a pause if doing it twice is harmless. If a rename
got no answer, the caller decides whether it took place.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.limits import waiting
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import Clock
from ray_committer.limits.waiting import RETRY_SECONDS, Sleep
from ray_committer.protocol.iostatistics import Durations, IOStatistics, aggregate
from ray_committer.protocol.statistic_names import STORE_IO_RETRY, STORE_IO_THROTTLED
from ray_committer.stores.base import StoredState, StoreOperations
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.operations import Operation

T = TypeVar("T")
OnThrottled = Callable[[int, float | None], None]
"""Waits after a number of refusals of one request; also gets the wait that the store asks for."""

ATTEMPTS = 8
"""How often a request without permits is made."""
STATE_SECONDS = 1.0
"""The time between two writes of one object on Google's store, by its documentation."""


class GuardedStore(ForwardingStore):
    """`StoreOperations` that take a permit for each request to `store`. `ThrottledError` or
    `StoreUnavailableError` after one request has failed for `retry_seconds`; `LeaseLostError`, with
    nothing requested, if there are no more permits."""

    def __init__(
        self,
        store: StoreOperations,
        permits: Permits,
        *,
        retry_seconds: float = 300.0,
        clock: Clock = time.monotonic,
        sleep: Sleep = waiting.sleep,
    ) -> None:
        super().__init__(store)
        self._permits = permits
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._sleep = sleep
        self._noted: deque[tuple[str, float, bool]] = deque()  # used by all threads, without a lock
        self._again: deque[str] = deque()  # why requests were made again; likewise

    @property
    def unguarded(self) -> StoreOperations:
        """The store without permits, for work that has permits of its own."""
        return self._store

    def take_statistics(self) -> IOStatistics:
        """Return the requests since the last call, under Hadoop's names, and forget them."""
        noted: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        with suppress(IndexError):  # several threads can call this: each request goes to one of them
            while True:
                name, seconds, failed = self._noted.popleft()
                noted[name, failed].append(seconds)
        durations = Durations()
        for (name, failed), all_seconds in noted.items():
            durations.add(name, all_seconds, failed=failed)
        again = Counter[str]()
        with suppress(IndexError):
            while True:
                again[self._again.popleft()] += 1
        statistics = durations.statistics()
        return aggregate(statistics, IOStatistics(dict(again))) if again else statistics

    def write_once(self, path: str, data: bytes) -> None:
        self._make("op_create", partial(self._store.write, path, data), self._wait_with_others)

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        # A store that throttles this throttles only this name, so no other request waits.
        return self._make("op_rename", partial(self._store.advance, path, old, text), self._wait_alone)

    def _request(
        self,
        operation: Operation,
        request: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> T:
        """Make a request, again if the store did nothing or if it may be made twice."""
        name = operation.statistic or operation.name
        whole = partial(request, *args, **kwargs)
        if operation.once:
            return self._make(name, whole, self._wait_with_others)
        started = self._clock()
        for attempt in itertools.count(1):
            try:
                return self._make(name, whole, self._wait_with_others)
            except StoreUnavailableError:
                pause = waiting.REQUEST.after(attempt)
                if self._clock() - started + pause > self._retry_seconds:
                    raise
                self._again.append(STORE_IO_RETRY)
                self._sleep(pause)
        raise AssertionError("unreachable")

    def _make(self, name: str, request: partial[T], on_throttled: OnThrottled) -> T:
        refusals, throttled_since = 0, float("inf")
        while True:
            self._permits.acquire()
            started = self._clock()
            try:
                result = request()
            except ThrottledError as e:
                self._note(name, started, failed=True)
                refusals, throttled_since = refusals + 1, min(throttled_since, started)
                on_throttled(refusals, e.retry_after_seconds)
                self._again.append(STORE_IO_THROTTLED)
                if self._clock() - throttled_since > self._retry_seconds:
                    raise
            except OSError as e:
                self._note(name, started, failed=True)
                _name_path(e, request)
                raise
            else:
                self._note(name, started, failed=False)
                return result

    def _wait_with_others(self, refusals: int, retry_after_seconds: float | None) -> None:
        """Wait after a refusal. If the store refuses few others, only this request waits: first a
        moment, then as long as the store asks."""
        if not self._permits.throttled(retry_after_seconds):
            asked = retry_after_seconds if refusals > 1 else None
            self._sleep(max(waiting.REQUEST.after(refusals - 1), asked or 0.0))

    def _wait_alone(self, refusals: int, retry_after_seconds: float | None) -> None:
        """Wait a moment after the first refusal, which may be one of few; then as long as the store
        asks, or until one name can be written again."""
        asked = STATE_SECONDS if retry_after_seconds is None else retry_after_seconds
        self._sleep(waiting.REQUEST.after(0) if refusals == 1 else asked)

    def _note(self, name: str, started: float, *, failed: bool) -> None:
        self._noted.append((name, self._clock() - started, failed))


def _name_path(error: OSError, request: partial[Any]) -> None:
    """Name the path of a request that has failed, if the error does not: a full disk has none."""
    if error.filename is None and error.errno is not None:
        error.filename = next((argument for argument in request.args if isinstance(argument, str)), None)


def until_answered(request: Callable[[], T], retry_seconds: float = RETRY_SECONDS) -> T:
    """Make a harmless request without permits, as to open a store, until the store answers it. The last
    of `ATTEMPTS`, or the last one in `retry_seconds`, raises its error."""
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS):
        try:
            return request()
        except (ThrottledError, StoreUnavailableError) as e:
            asked = e.retry_after_seconds if isinstance(e, ThrottledError) else None
            pause = max(asked or 0.0, waiting.REQUEST.after(attempt))
            if time.monotonic() - started + pause > retry_seconds:
                raise
        waiting.sleep(pause)
    return request()
