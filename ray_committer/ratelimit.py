"""One limit of requests for all processes of a commit, and the lease without which none is made.

`RateLimit` decides: it hands out permits a few at a time, which expire, and answers a store's
throttling (HTTP 429 and 503) by additive increase and multiplicative decrease. `Permits` is what a
process holds of it. A fixed share each was measured to use 33 % of a limit when the work is
uneven, one call a permit 21 %; batches for a tenth of a second, asked for in advance, 98 %.

A process that cannot reach who hands out the permits makes no request once its lease is over. So a
worker that a partition cut off stops by itself, without anybody having to reach it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ray_committer.errors import LeaseLostError

Clock = Callable[[], float]

BATCH_SECONDS = 0.1
SMALLEST_BATCH = 5
RENEW_SECONDS = 1.0
DECREASE = 0.85
DECREASE_AGAIN = 0.5  # if the last decrease did not help
DECREASE_SECONDS = 1.0
FAST_INCREASE = 0.25  # of the rate, a second
SLOW_INCREASE = 0.01  # near the rate that the store did not bear
RETRY_SECONDS = 0.2
CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Grant:
    """Permits for `requests` requests (None: any number).

    They hold from `wait_seconds` until `lease_seconds` after they were asked for, by the asker's clock.
    """

    requests: int | None
    wait_seconds: float
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class LimitStatistics:
    """What a limit did: requests made and throttled, and its rates in requests a second.

    `limit` is what was asked for, `lowest` and `last` what throttling made of it; None is no limit.
    """

    requests: int = 0
    throttled: int = 0
    limit: float | None = None
    lowest: float | None = None
    last: float | None = None


class LimitAuthority(Protocol):
    """Who hands out permits: a `RateLimit` here, or one behind a Ray actor."""

    def grant(self, holder: str, used: int) -> Grant:
        """Permits for `holder`, which has made `used` requests since it last asked."""

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> None:
        """The store refused a request of `holder` because there were too many."""

    def statistics(self) -> LimitStatistics:
        """What happened so far."""


class RateLimit:
    """`LimitAuthority` by a token bucket whose rate the store's answers move; safe for threads.

    It never waits: it tells the asker how long to.
    """

    def __init__(
        self, limit: float | None = None, *, lease_seconds: float = 10.0, clock: Clock = time.monotonic
    ) -> None:
        self._limit = limit
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = limit
        self._free_from = clock()  # when the next permit may be used
        self._asked: dict[str, float] = {}  # when each holder last asked
        self._expelled: set[str] = set()
        self._refused_rate: float | None = None
        self._decreased = self._increased = float("-inf")
        self._requests = self._throttled = 0
        self._lowest: float | None = None

    def grant(self, holder: str, used: int) -> Grant:
        with self._lock:
            if holder in self._expelled:
                raise LeaseLostError(f"{holder} was taken for lost and replaced; it may do no more")
            now = self._clock()
            self._note_use(holder, used, now)
            self._increase(now)
            if self._rate is None:
                return Grant(None, max(0.0, self._free_from - now), self._lease_seconds)
            batch = max(SMALLEST_BATCH, round(self._rate * BATCH_SECONDS / len(self._asked)))
            start = max(now, self._free_from)
            self._free_from = start + batch / self._rate
            return Grant(batch, start - now, start - now + self._lease_seconds)

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> None:
        with self._lock:
            now = self._clock()
            if self._rate is None:
                seconds = max(now - self._asked.get(holder, now), BATCH_SECONDS)
                self._rate = max(used / seconds * len(self._asked), SMALLEST_BATCH)
            self._note_use(holder, used, now)
            self._throttled += 1
            self._free_from = max(self._free_from, now + (retry_after_seconds or 0.0))
            if now - self._decreased >= max(DECREASE_SECONDS, retry_after_seconds or 0.0):
                self._decrease(now, retry_after_seconds or 0.0)

    def expel(self, holder: str) -> None:
        """Give `holder`, which is taken for lost, no permits any more; idempotent."""
        with self._lock:
            self._expelled.add(holder)
            self._asked.pop(holder, None)

    def statistics(self) -> LimitStatistics:
        with self._lock:
            return LimitStatistics(
                self._requests, self._throttled, self._limit, self._lowest, self._rate
            )

    def _note_use(self, holder: str, used: int, now: float) -> None:
        """Know who asks and how much is done; one that has not asked for a whole lease is gone."""
        self._requests += used
        self._asked[holder] = now
        for name in [name for name, at in self._asked.items() if now - at > self._lease_seconds]:
            del self._asked[name]

    def _decrease(self, now: float, retry_after_seconds: float) -> None:
        """Go below the rate that the store refused; far below if that did not help a moment ago."""
        soon = now - self._decreased < 3 * max(DECREASE_SECONDS, retry_after_seconds)
        self._refused_rate = self._rate or SMALLEST_BATCH
        self._rate = max(1.0, self._refused_rate * (DECREASE_AGAIN if soon else DECREASE))
        self._lowest = min(self._rate, self._lowest or self._rate)
        self._decreased = self._increased = now

    def _increase(self, now: float) -> None:
        if self._rate is None or self._refused_rate is None or self._rate == self._limit:
            return
        seconds = min(now - self._increased, 1.0)
        near = 0.9 * DECREASE * self._refused_rate < self._rate < 1.05 * self._refused_rate
        self._rate *= 1 + seconds * (SLOW_INCREASE if near else FAST_INCREASE)
        if self._limit is not None:
            self._rate = min(self._rate, self._limit)
        self._increased = now


@dataclass(slots=True)
class _Batch:
    begins: float
    ends: float
    size: int | None
    left: int | None


@dataclass(slots=True)
class _Held:
    """What a process holds now; guarded by the lock of its `Permits`."""

    batches: deque[_Batch] = field(default_factory=deque)
    used: int = 0
    wanted: bool = False
    free_until: float = float("-inf")
    renew_at: float = float("-inf")
    failed_since: float | None = None
    failure: Exception | None = None
    closed: bool = False


class Permits:
    """One process's permits; `acquire` before each request. Safe for threads.

    More are asked for by a thread of its own when half are used, so nobody waits for the asking.
    """

    def __init__(
        self,
        authority: LimitAuthority,
        holder: str,
        *,
        patience_seconds: float = 10.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._authority = authority
        self._holder = holder
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._held = _Held()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Wait until a request may begin; `LeaseLostError` if nobody says so for too long."""
        held = self._held
        now = self._clock()
        if now < held.free_until and now < held.renew_at:  # no limit: nothing to wait for
            held.used += 1  # a lost update in a race of threads only blurs a statistic
            return
        with self._changed:
            while not self._take():
                self._changed.wait(self._seconds_to_wait())

    def throttled(self, retry_after_seconds: float | None) -> None:
        """Tell of a throttled request; permits that were not used yet are given up."""
        with self._changed:
            self._held.batches.clear()
            self._held.free_until = float("-inf")
            used, self._held.used = self._held.used, 0
        self._authority.throttled(self._holder, used, retry_after_seconds)

    def close(self) -> None:
        """Stop asking; idempotent. Requests that wait for a permit fail."""
        with self._changed:
            self._held.closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _take(self) -> bool:
        held, now = self._held, self._clock()
        while held.batches and (held.batches[0].ends <= now or held.batches[0].left == 0):
            held.batches.popleft()
        usable = bool(held.batches) and held.batches[0].begins <= now
        if usable:
            first = held.batches[0]
            held.used += 1
            held.failed_since = None
            if first.left is None:
                held.free_until = first.ends
            else:
                first.left -= 1
        if self._is_low(now):
            self._ask()
        if not usable:
            self._give_up_if_lost(now)
        return usable

    def _is_low(self, now: float) -> bool:
        held = self._held
        if not held.batches:
            return True
        size, left = held.batches[0].size, held.batches[0].left
        if size is None or left is None:
            return now >= held.renew_at
        return len(held.batches) == 1 and left * 2 <= size

    def _ask(self) -> None:
        if not self._held.wanted:
            self._held.wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._refill, name="permits", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _give_up_if_lost(self, now: float) -> None:
        held = self._held
        if held.closed:
            raise LeaseLostError("this process has given its lease back and may make no request")
        if held.failed_since is not None and now - held.failed_since > self._patience_seconds:
            raise LeaseLostError(
                f"nobody could be asked for a lease for {self._patience_seconds:g} s "
                f"({held.failure}), so no request may be made; run the same command to finish the commit"
            ) from held.failure

    def _seconds_to_wait(self) -> float:
        held = self._held
        if held.batches:
            return max(0.0005, held.batches[0].begins - self._clock())
        return 1.0

    def _refill(self) -> None:
        """Ask for permits whenever they are wanted; the thread's main loop."""
        held = self._held
        while True:
            with self._changed:
                while not held.wanted and not held.closed:
                    self._changed.wait()
                if held.closed:
                    return
                used, held.used = held.used, 0
            asked = self._clock()
            try:
                grant = self._authority.grant(self._holder, used)
            except Exception as e:  # noqa: BLE001 - whatever it is, there is no permit
                self._note_failure(e, used, asked)
                continue
            with self._changed:
                held.failed_since = held.failure = None
                held.wanted = False
                self._hold(grant, asked)
                held.renew_at = asked + RENEW_SECONDS
                self._changed.notify_all()

    def _hold(self, grant: Grant, asked: float) -> None:
        """Keep a grant; permits for any number of requests do not go with counted ones."""
        held = self._held
        if held.batches and (held.batches[0].size is None or grant.requests is None):
            held.batches.clear()
            held.free_until = float("-inf")
        begins, ends = asked + grant.wait_seconds, asked + grant.lease_seconds
        held.batches.append(_Batch(begins, ends, grant.requests, grant.requests))

    def _note_failure(self, failure: Exception, used: int, asked: float) -> None:
        with self._changed:
            held = self._held
            held.used += used
            held.failure = failure
            if held.failed_since is None:
                held.failed_since = asked
            self._changed.notify_all()
            self._changed.wait(RETRY_SECONDS)
