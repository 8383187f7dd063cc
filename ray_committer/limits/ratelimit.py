"""One limit of requests for all processes of a commit.

`RateLimit` hands out permits that expire, a few at a time. It answers a store's throttling (HTTP 429 and
503) by additive increase and multiplicative decrease. With uneven work, a fixed share per process was
measured to use 33 % of a limit, and one call per permit 21 %. Batches for a tenth of a second, asked for
in advance, use 98 %.

A store that is too busy for a single request now and then is not taken to throttle, and such a refusal
concerns only that request. A store throttles if it refuses more requests of a second than this explains.
If it refuses as large a share of far fewer requests, the rate is not the reason: then that share is
taken for chance, and the rate is restored.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ray_committer.errors import LeaseLostError
from ray_committer.events import ThrottledSpan

Clock = Callable[[], float]

LEASE_SECONDS = 10.0
"""How long a permit is valid, and how long a process continues without an answer."""
# Work for one holder: long enough for a call to the host, short enough if the holder is lost.
BATCH_SECONDS = 0.1
SMALLEST_BATCH = 5
FIRST_GUESS = 1000.0  # requests per second, if nothing better is known
DECREASE = 0.85
DECREASE_AGAIN = 0.5  # if the last decrease did not help
DECREASE_SECONDS = 1.0
FAST_INCREASE = 0.25  # of the rate, per second
SLOW_INCREASE = 0.01  # near the rate that the store refused
SPAN_GAP_SECONDS = 10.0  # without throttling; after this, more of it is another span
MOST_SPANS = 100
WINDOW_SECONDS = 1.0
STRAY_SHARE = 0.02  # of requests that a store refuses although it does not throttle
FEWEST_REFUSALS = 3
MOST_STRAY = 0.3  # a larger share is never taken for chance
STRAY_MARGIN = 1.5  # of the share that was seen, which chance may have made small
FAR_LOWER = 0.65  # of what was served in the busiest second
ENOUGH_REQUESTS = 50  # to say which share of them was refused
FLOOR = 0.1  # of the most that was served in a second
HIGHEST_RATE = 100_000.0  # if no limit was set; more than any store accepts


@dataclass(frozen=True, slots=True)
class Grant:
    """Permits for `requests` requests (None: any number). They are valid from `wait_seconds` until
    `lease_seconds` after the request for them, by the clock of the process that asked."""

    requests: int | None
    wait_seconds: float
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class LimitStatistics:
    """What a limit did: requests made and throttled, and rates in requests per second: the `limit` that
    was set, the `lowest` and the `last` after throttling; None is no limit. `spans` are the periods of
    throttling, in order; of very many, the last one combines several."""

    requests: int = 0
    throttled: int = 0
    limit: float | None = None
    lowest: float | None = None
    last: float | None = None
    spans: tuple[ThrottledSpan, ...] = ()


@dataclass(slots=True)
class _Span:
    """A `ThrottledSpan` that can continue, by this process's clock."""

    began: float
    last: float
    before: float
    lowest: float
    refused: int = 0
    recovered: float | None = None

    def note_rate(self, rate: float, now: float) -> None:
        if self.recovered is None and rate >= self.before:
            self.recovered = now

    def seen_from(self, now: float) -> ThrottledSpan:
        recovered = None if self.recovered is None else now - self.recovered
        return ThrottledSpan(
            now - self.began, now - self.last, self.refused, self.before, self.lowest, recovered
        )


class _Window:
    """The requests of the last second, and which of them were refused."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int, int]] = deque()
        self.requests = self.refused = 0

    def note(self, now: float, requests: int, refused: int = 0) -> None:
        self._noted.append((now, requests, refused))
        self.requests += requests
        self.refused += refused
        # Never empty: what was just noted is younger than the window.
        while self._noted[0][0] <= now - WINDOW_SECONDS:
            _, requests, refused = self._noted.popleft()
            self.requests -= requests
            self.refused -= refused

    @property
    def served(self) -> int:
        # Refusals arrive before the count of their requests, which is told only in batches.
        return max(0, self.requests - self.refused)

    @property
    def share(self) -> float:
        """The share of the requests that was refused."""
        return self.refused / max(1, self.requests)

    def is_throttled(self, stray_share: float) -> bool:
        """True if more is refused than chance explains, by three standard deviations."""
        stray = stray_share * self.requests
        # Refusals by chance are a Poisson count, whose variance is its mean. Below `FEWEST_REFUSALS` no
        # share of so few requests says anything.
        return self.refused >= max(FEWEST_REFUSALS, stray + 3 * math.sqrt(stray))


@dataclass(slots=True)
class _Busiest:
    """The second with the most requests in a span of throttling; `rate` is what it was before."""

    at: float
    requests: int
    share: float
    rate: float | None
    lower_from: float | None = None
    """Since when the rate is or was far lower."""
    seen: tuple[int, int] | None = None
    """All requests and refusals by the last look, if the rate was far lower then."""
    made: int = 0
    refused: int = 0
    """The requests and refusals at far lower rates."""

    def share_at_far_lower_rate(
        self, rate: float | None, now: float, requests: int, refused: int, window: _Window
    ) -> float | None:
        """The share that is refused at far lower rates; None if the `rate` now is not far lower, if
        there were too few requests, or if a far smaller share of the last second was refused.

        Permits of an earlier rate are used for a moment, so the requests of the last second must be far
        fewer, too. Its share counts as well, because it is of all requests. A look comes with each
        refusal, and requests between two looks are counted only if the rate was far lower at both.
        """
        # Of what was served, not of what was asked: a store that throttles serves its limit whatever is
        # asked. A rate below two thirds of that cannot be refused for being too high.
        highest = FAR_LOWER * self.requests * (1 - self.share)
        is_far_lower = rate is not None and rate <= highest and window.requests <= highest
        # Refusals of the busiest second arrive for a window longer, and would count for the lower rate.
        if not is_far_lower or now - self.at < WINDOW_SECONDS:
            self.seen = None
            return None
        # Only between two looks at a far lower rate: in between, it can only have risen slowly.
        if self.seen is not None:
            self.made += requests - self.seen[0]
            self.refused += refused - self.seen[1]
        self.seen = (requests, refused)
        # Kept when the rate rises for a moment: the counts at far lower rates add up over visits.
        if self.lower_from is None:
            self.lower_from = now
        # A second at least: requests in the store's queue are refused for what was asked before.
        is_enough = self.made >= ENOUGH_REQUESTS and now - self.lower_from >= WINDOW_SECONDS
        return self.refused / self.made if is_enough and window.share >= self.share / 2 else None


class LimitAuthority(Protocol):
    """The source of permits: a `RateLimit` in this process, or one behind a Ray actor."""

    def grant(self, holder: str, used: int) -> Grant:
        """Return permits for `holder`, which has made `used` requests since it last asked."""

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
        """Note that the store refused a request of `holder` because there were too many; True if all
        requests must wait, False if only that one should."""

    def statistics(self) -> LimitStatistics:
        """Return what happened so far."""


class RateLimit:
    """`LimitAuthority` with a token bucket, whose rate follows the store's answers; safe for threads. It
    never waits: it returns how long the caller must wait."""

    def __init__(self, limit: float | None = None, *, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = limit
        self._unlimited_since = clock()
        self._free_from = clock()  # when the next permit may be used
        self._asked: dict[str, float] = {}  # when each holder last asked
        self._unused: dict[str, int] = {}  # permits that each holder still has
        self._fenced: set[str] = set()
        self._refused_rate: float | None = None
        self._decreased = self._increased = float("-inf")
        self._requests = self._throttled = 0
        self._lowest: float | None = None
        self._spans: list[_Span] = []
        self._window = _Window()
        self._stray_share = STRAY_SHARE
        self._busiest: _Busiest | None = None
        self._most_served = 0

    def grant(self, holder: str, used: int) -> Grant:
        with self._lock:
            if holder in self._fenced:
                raise LeaseLostError(f"{holder} was taken for lost and replaced, so it gets no permits")
            now = self._clock()
            self._note_use(holder, used, now)
            # The rate rises when permits are asked for: no timer, and an idle commit does not climb.
            self._increase(now)
            if self._rate is None:
                return Grant(None, max(0.0, self._free_from - now), LEASE_SECONDS)
            # Shared by those that asked within a lease. At least five, since with many holders the calls
            # to this limit would outnumber the requests to the store.
            batch = max(SMALLEST_BATCH, round(self._rate * BATCH_SECONDS / len(self._asked)))
            self._unused[holder] = self._unused.get(holder, 0) + batch
            start = max(now, self._free_from)
            # The next batch begins where this one ends, whoever gets it: holders need no shares of their
            # own, and a busy one takes what an idle one leaves.
            self._free_from = start + batch / self._rate
            return Grant(batch, start - now, start - now + LEASE_SECONDS)

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
        with self._lock:
            now = self._clock()
            self._throttled += 1
            # Before the use is noted: there the refused request must not count as served.
            self._window.note(now, 0, refused=1)
            self._note_use(holder, used, now)
            # First whether it is throttling at all: below that, a refusal says nothing of the rate.
            if not self._window.is_throttled(self._stray_share):
                return False
            if self._is_stray(now, retry_after_seconds or 0.0):
                return False
            if self._rate is None:
                # There was no limit: what was asked in the last second is the rate that the store
                # refused. A commit that has just begun has not filled a second.
                seconds = min(max(now - self._unlimited_since, BATCH_SECONDS), WINDOW_SECONDS)
                self._rate = min(max(self._window.requests / seconds, FIRST_GUESS), HIGHEST_RATE)
            self._note_span(now, self._rate, retry_after_seconds or 0.0)
            given_up = self._unused.pop(holder, 0) / self._rate  # else many refusals would idle
            # Not zero without advice of the store: the same request would be refused again.
            pause = BATCH_SECONDS if retry_after_seconds is None else retry_after_seconds
            self._free_from = max(self._free_from - given_up, now + pause)
            # Once a second: refusals from before the last decrease say nothing of the new rate.
            if now - self._decreased >= max(DECREASE_SECONDS, retry_after_seconds or 0.0):
                self._decrease(now, retry_after_seconds or 0.0)
            return True

    def _is_stray(self, now: float, retry_after_seconds: float) -> bool:
        """Find out whether the store refuses a share of requests at any rate; then restore the rate."""
        # The chance rule: the share that is refused in the busiest second is compared with the share at
        # far lower rates. Throttling refuses less there, chance refuses the same.
        busiest, window = self._busiest, self._window
        gap = SPAN_GAP_SECONDS + retry_after_seconds
        if busiest is None or not self._spans or now - self._spans[-1].last > gap:
            # A new span of throttling, perhaps of another cause: what was measured does not count.
            self._busiest = _Busiest(now, window.requests, window.share, self._rate)
            return False
        # Busier than before: the new second is the one to compare with. The rate to restore stays the
        # one from before the first decrease.
        if window.requests >= busiest.requests:
            self._busiest = _Busiest(now, window.requests, window.share, busiest.rate)
            return False
        share = busiest.share_at_far_lower_rate(self._rate, now, self._requests, self._throttled, window)
        if share is None:
            return False
        # A far smaller share: the rate was the reason. A far larger one: the store has become slower
        # meanwhile. In both cases the comparison starts again from what the store does now.
        if not busiest.share / 2 <= share <= min(2 * busiest.share, MOST_STRAY):  # not by chance
            self._busiest = _Busiest(now, window.requests, window.share, self._rate)
            return False
        # It never falls: a store with stray refusals would be taken to throttle again and again.
        self._stray_share = max(self._stray_share, STRAY_MARGIN * share)
        # As the rate was before the first decrease; None if there was no limit then.
        self._rate = self._refused_rate = busiest.rate
        self._busiest, self._unlimited_since = None, now
        self._spans[-1].note_rate(busiest.rate or HIGHEST_RATE, now)
        return True

    def fence(self, holder: str) -> None:
        """Fence `holder`, which is taken for lost: give it no more permits. Idempotent."""
        with self._lock:
            self._fenced.add(holder)
            # The others share its part of the rate from now on.
            self._asked.pop(holder, None)
            self._unused.pop(holder, None)

    def statistics(self) -> LimitStatistics:
        with self._lock:
            now = self._clock()
            spans = tuple(span.seen_from(now) for span in self._spans)
            return LimitStatistics(
                self._requests, self._throttled, self._limit, self._lowest, self._rate, spans
            )

    def _note_use(self, holder: str, used: int, now: float) -> None:
        """Note the requests of `holder`; forget holders that have not asked for a whole lease."""
        self._requests += used
        self._window.note(now, used)
        self._most_served = max(self._most_served, self._window.served)
        # Expired permits count as unused here, requests without a limit as used: never below 0.
        self._unused[holder] = max(0, self._unused.get(holder, 0) - used)
        if holder not in self._fenced:
            self._asked[holder] = now
        for name in [name for name, at in self._asked.items() if now - at > LEASE_SECONDS]:
            del self._asked[name]
            self._unused.pop(name, None)

    def _decrease(self, now: float, retry_after_seconds: float) -> None:
        """Lower the rate below the refused one; far below if that did not help a moment ago."""
        # Two decreases close together: the limit is far lower than thought, and 15 % a step too slow.
        soon = now - self._decreased < 3 * max(DECREASE_SECONDS, retry_after_seconds)
        self._refused_rate = self._rate or FIRST_GUESS
        # A store that once served this much serves a tenth of it: without a floor, refusals by chance
        # halve the rate until the commit stands still.
        lowest = max(1.0, FLOOR * self._most_served)
        self._rate = max(lowest, self._refused_rate * (DECREASE_AGAIN if soon else DECREASE))
        self._lowest = min(self._rate, self._lowest or self._rate)
        self._spans[-1].lowest = min(self._rate, self._spans[-1].lowest)
        self._decreased = self._increased = now

    def _increase(self, now: float) -> None:
        if self._rate is None or self._refused_rate is None or self._rate == self._limit:
            return
        # At most one second at once: after a pause the rate must not leap.
        seconds = min(now - self._increased, 1.0)
        # Slow near the refused rate, fast elsewhere: the limit is found soon, and touched rarely.
        near = 0.9 * DECREASE * self._refused_rate < self._rate < 1.05 * self._refused_rate
        self._rate *= 1 + seconds * (SLOW_INCREASE if near else FAST_INCREASE)
        self._rate = min(self._rate, self._limit or HIGHEST_RATE)
        self._increased = now
        self._spans[-1].note_rate(self._rate, now)

    def _note_span(self, now: float, rate: float, retry_after_seconds: float) -> None:
        """Count a refusal in the current span, or begin a span with the refusals of the last second."""
        gap = SPAN_GAP_SECONDS + retry_after_seconds
        last = self._spans[-1] if self._spans else None
        if last is None or (now - last.last > gap and len(self._spans) < MOST_SPANS):
            # Those that made the window throttling belong to the span; the last one is counted below.
            refused = self._window.refused - 1
            last = _Span(began=now, last=now, before=rate, lowest=rate, refused=refused)
            self._spans.append(last)
        last.last, last.recovered = now, None
        last.refused += 1
