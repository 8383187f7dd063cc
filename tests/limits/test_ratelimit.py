"""The limit of requests: what it hands out, and how much of a store's own limit it finds."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ray_committer.errors import LeaseLostError
from ray_committer.limits.ratelimit import (
    BATCH_SECONDS,
    DECREASE,
    DECREASE_AGAIN,
    FEWEST_REFUSALS,
    FIRST_GUESS,
    HIGHEST_RATE,
    LEASE_SECONDS,
    SMALLEST_BATCH,
    LimitStatistics,
    RateLimit,
)
from tests.clock import Clock

ROUND_TRIP, BACKOFF = 0.02, 0.15


@dataclass
class Bucket:
    """A store that bears `rate` requests a second, and a tenth of a second's at once."""

    rate: float
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = self.rate / 10

    def bears(self, now: float) -> bool:
        self.tokens = min(self.rate / 10, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class LastSecond:
    """A store that bears `rate` requests in any second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._served: deque[float] = deque()

    def bears(self, now: float) -> bool:
        while self._served and self._served[0] <= now - 1:
            self._served.popleft()
        if len(self._served) >= self.rate:
            return False
        self._served.append(now)
        return True

    def retry_after(self, now: float) -> float:
        """When it bears one more."""
        return self._served[0] + 1 - now


@dataclass
class Holder:
    """A process: it asks when it has nothing left, and each second where there is no limit."""

    name: str
    left: float = 0
    begins: float = 0.0
    renew: float = float("inf")
    used: int = 0

    def ask(self, limit: RateLimit, now: float) -> None:
        grant = limit.grant(self.name, self.used)
        self.used, self.begins = 0, now + grant.wait_seconds
        self.left = float("inf") if grant.requests is None else grant.requests
        self.renew = now + 1 if grant.requests is None else float("inf")


@dataclass
class Simulated:
    """Served requests by holder, when each was served, and when others were refused."""

    served: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    statistics: LimitStatistics = field(default_factory=LimitStatistics)

    @property
    def throttled(self) -> int:
        return len(self.refused)

    def largest_window(self, seconds: float) -> int:
        """The most requests that were served in any window."""
        most = low = 0
        for high, time in enumerate(self.times):
            while self.times[low] <= time - seconds:
                low += 1
            most = max(most, high - low + 1)
        return most


def simulate(
    limit: float | None,
    *,
    cap: float = float("inf"),
    later: Sequence[tuple[float, float]] = (),
    stray: float = 0.0,
    threads: Sequence[int] = (32, 32, 32, 32),
    retry_after: float | None = None,
    seconds: float = 60.0,
    kind: type[Bucket | LastSecond] = Bucket,
) -> Simulated:
    """Let processes with so many `threads` each make requests of 20 ms, as fast as they may.

    The store bears `cap` requests a second, and others from the times of `later`; it refuses a share of
    `stray` by chance.
    """
    changes = deque(later)
    dice = random.Random(1)
    clock, done = Clock(), Simulated()
    rate_limit, store = RateLimit(limit, clock=clock), kind(cap)
    holders = [Holder(str(number)) for number in range(len(threads))]
    order = itertools.count()
    turns = [
        (ROUND_TRIP * thread / number, next(order), holder)
        for holder, number in zip(holders, threads, strict=True)
        for thread in range(number)
    ]
    heapq.heapify(turns)
    while turns and turns[0][0] < seconds:
        clock.now, _, holder = heapq.heappop(turns)
        while changes and changes[0][0] <= clock.now:
            _, store.rate = changes.popleft()
        if holder.left <= 0 or clock.now >= holder.renew:
            holder.ask(rate_limit, clock.now)
        if clock.now < holder.begins:
            heapq.heappush(turns, (holder.begins, next(order), holder))
            continue
        holder.left -= 1
        holder.used += 1
        if (cap == float("inf") or store.bears(clock.now)) and dice.random() >= stray:
            done.served[holder.name] += 1
            done.times.append(clock.now)
        else:
            done.refused.append(clock.now)
            if isinstance(store, LastSecond):
                retry_after = store.retry_after(clock.now)
            is_for_all = rate_limit.throttled(holder.name, holder.used, retry_after)
            holder.used = 0
            if is_for_all:
                holder.left = 0
            else:
                heapq.heappush(turns, (clock.now + ROUND_TRIP + BACKOFF, next(order), holder))
                continue
        heapq.heappush(turns, (clock.now + ROUND_TRIP, next(order), holder))
    done.statistics = rate_limit.statistics()
    return done


def storm(limit: RateLimit, holder: str = "a", used: int = 0, retry_after: float | None = None) -> None:
    """Refuse as many requests at once as tell that the store throttles."""
    is_for_all = limit.throttled(holder, used, retry_after)
    while not is_for_all:
        is_for_all = limit.throttled(holder, 0, retry_after)


def size(limit: RateLimit, holder: str) -> int:
    requests = limit.grant(holder, 0).requests
    assert requests is not None
    return requests


@pytest.mark.parametrize(
    ("rate", "holders", "batch"),
    [
        (1000, 1, 100),
        (1000, 4, 25),
        (1000, 40, SMALLEST_BATCH),
        (1, 1, SMALLEST_BATCH),
        (99, 1, 10),
        (20_000, 2, 1000),
    ],
)
def test_a_batch_is_a_holders_share_of_a_tenth_of_a_second(rate: float, holders: int, batch: int):
    limit = RateLimit(rate, clock=Clock())
    for holder in range(holders):
        limit.grant(str(holder), 0)
    assert size(limit, "0") == batch


def test_each_batch_begins_when_the_one_before_it_is_used_up():
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    grants = [limit.grant("a", 0) for _ in range(3)]
    assert [grant.requests for grant in grants] == [100] * 3
    assert [grant.wait_seconds for grant in grants] == pytest.approx([0, 0.1, 0.2])
    assert [grant.lease_seconds for grant in grants] == pytest.approx([10, 10.1, 10.2])
    clock.now = 5.0  # what nobody asked for is not saved up
    assert [limit.grant("a", 0).wait_seconds for _ in range(2)] == pytest.approx([0, 0.1])


def test_without_a_limit_any_number_may_be_made_at_once():
    grant = RateLimit(clock=Clock()).grant("a", 0)
    assert (grant.requests, grant.wait_seconds, grant.lease_seconds) == (None, 0, LEASE_SECONDS)


@pytest.mark.parametrize("limit", [50, 300, 1000])
@pytest.mark.parametrize("threads", [(32,), (32, 32, 32, 32), (1, 16, 1)])
def test_no_window_holds_more_than_the_limit_and_a_batch_of_each_holder(
    limit: float, threads: Sequence[int]
):
    done = simulate(limit, threads=threads, seconds=10)
    batch = max(SMALLEST_BATCH, limit * BATCH_SECONDS)
    for window in (0.05, 0.3, 1.0, 4.0):
        assert done.largest_window(window) <= limit * window + batch * len(threads)


def test_a_limit_is_used_by_whoever_has_work():
    done = simulate(500, threads=(10, 1, 1, 1), seconds=30)
    assert done.served.total() >= 0.95 * 500 * 30
    assert done.served["0"] > 3 * done.served["1"]


EIGHT, SIXTEEN = (8,) * 16, (16,) * 4
THROTTLING: list[tuple[float | None, float, dict[str, Any], float, float]] = [
    # limit, what the store bears, how, the least share of that that is used, and the most refusals
    *(
        (limit, cap, {"retry_after": retry_after}, 0.8, 0.02)
        for cap in (300, 1000, 3000)
        for limit in (None, 5000)
        for retry_after in (None, 0.2, 1.0)
    ),
    # beside refusals by chance
    *((None, cap, {"stray": 0.05}, 0.7, 0.15) for cap in (1000, 3000)),
    # permits of an earlier rate do not make it look like chance
    (None, 300, {"threads": EIGHT}, 0.9, 0.05),
    (1000, 300, {"threads": EIGHT}, 0.9, 0.05),
    (1000, 400, {"threads": EIGHT}, 0.9, 0.05),
    (5000, 500, {"threads": SIXTEEN}, 0.9, 0.05),
    # it refuses bursts, since so many processes have permits when it has asked all to wait
    (500, 100, {"threads": EIGHT, "kind": LastSecond}, 0.8, 0.06),
    (1000, 150, {"threads": EIGHT, "kind": LastSecond}, 0.8, 0.06),
    (1000, 150, {"threads": SIXTEEN, "kind": LastSecond}, 0.8, 0.06),
    (1000, 200, {"threads": EIGHT, "kind": LastSecond}, 0.8, 0.06),
]


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "cap", "how", "used", "refused"), THROTTLING)
def test_most_of_what_a_store_bears_is_used_though_nobody_knows_it(
    limit: float | None, cap: float, how: dict[str, Any], used: float, refused: float
):
    done = simulate(limit, cap=cap, **how)
    assert done.served.total() >= used * cap * 60
    assert 0 < done.throttled < refused * done.served.total()
    assert done.statistics.throttled == done.throttled
    assert done.statistics.last is not None


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", [None, 1.0])
@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize("stray", [0.03, 0.05, 0.1, 0.2])
def test_a_share_that_is_refused_at_any_rate_does_not_lower_the_rate_for_long(
    stray: float, limit: float | None, retry_after: float | None
):
    """6,400 requests a second, less the time for which a refused one is not repeated, or 1,000."""
    done = simulate(limit, stray=stray, retry_after=retry_after, seconds=30.0)
    most = limit or 128 / (ROUND_TRIP + stray * BACKOFF)
    share = 0.7 if retry_after is None else 0.3  # all wait for a second until it is found out
    assert done.served.total() >= share * most * (1 - stray) * 30
    assert done.statistics.last == limit


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize(("cap", "less"), [(1000, 200), (1000, 300), (500, 150), (800, 500)])
def test_a_store_that_bears_less_from_now_on_is_not_taken_to_refuse_by_chance(
    cap: float, less: float, limit: float | None
):
    done = simulate(limit, cap=cap, later=[(5.0, less)], threads=SIXTEEN)
    served, refused = (sum(at > 40 for at in times) for times in (done.times, done.refused))
    assert served >= 0.8 * less * 20
    assert refused < 0.08 * served


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 1000])
def test_a_store_that_bears_more_again_is_used(limit: float | None):
    falls_and_rises = [(5.0, 700.0), (10.0, 300.0), (13.0, 2000.0)]
    done = simulate(limit, cap=1000, later=falls_and_rises, threads=SIXTEEN)
    assert sum(at > 55 for at in done.times) >= 0.8 * (limit or 2000) * 5


@pytest.mark.slow
def test_a_rate_that_was_restored_too_low_grows():
    """Chance made the share look larger than any that is taken for chance, at first."""
    done = simulate(1000, stray=0.28, threads=SIXTEEN)
    assert sum(at > 40 for at in done.times) >= 0.6 * 1000 * 20


def test_a_limit_below_what_the_store_bears_is_never_throttled():
    done = simulate(500, cap=1000)
    assert done.throttled == 0
    assert done.statistics == LimitStatistics(done.statistics.requests, 0, 500, None, 500)


@pytest.mark.parametrize("limit", [None, 1000])
def test_everybody_waits_as_long_as_the_store_has_asked_one_to(limit: float | None):
    clock = Clock()
    rate_limit = RateLimit(limit, clock=clock)
    for holder in "abc":
        rate_limit.grant(holder, 0)
    clock.now = 3.0
    storm(rate_limit, "a", 10, 4.0)
    for holder in "abcd":
        assert rate_limit.grant(holder, 0).wait_seconds >= 4.0
    clock.now = 3.5
    storm(rate_limit, "b", 10, 1.0)  # a shorter wish does not undo it
    assert rate_limit.grant("a", 0).wait_seconds >= 3.5


@pytest.mark.parametrize("retry_after", [None, 0.2, 5.0])
def test_a_storm_of_throttled_requests_is_one_decrease(retry_after: float | None):
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    for number in range(100):
        clock.now = number * 0.005
        limit.throttled(f"h{number % 4}", 1, retry_after)
    found = limit.statistics()
    assert (found.throttled, found.requests) == (100, 100)
    assert found.lowest == found.last == 1000 * DECREASE


def test_a_storm_lasts_as_long_as_the_store_asked_to_wait():
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    for clock.now in (0.0, 4.9):
        storm(limit, retry_after=5.0)
    assert limit.statistics().last == 1000 * DECREASE
    clock.now = 5.0
    storm(limit, retry_after=5.0)
    assert limit.statistics().last == 1000 * DECREASE * DECREASE_AGAIN


@pytest.mark.parametrize(
    ("later", "factor"), [(0.9, 1.0), (1.0, DECREASE_AGAIN), (2.9, DECREASE_AGAIN), (3.0, DECREASE)]
)
def test_a_decrease_that_did_not_help_is_followed_by_a_deeper_one(later: float, factor: float):
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    storm(limit)
    clock.now = later
    storm(limit)
    assert limit.statistics().last == pytest.approx(1000 * DECREASE * factor)


def test_the_rate_rises_slowly_near_what_was_refused_and_fast_far_below():
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    storm(limit)
    clock.now = 1.0
    limit.grant("a", 0)
    assert limit.statistics().last == pytest.approx(850 * 1.01)
    storm(limit)
    low = limit.statistics().last
    clock.now = 1.5
    limit.grant("a", 0)
    assert limit.statistics().last == pytest.approx(low * (1 + 0.25 / 2))


def test_the_rate_never_rises_above_the_limit_nor_falls_below_one():
    clock = Clock()
    limit = RateLimit(20, clock=clock)
    for clock.now in range(0, 100, 2):
        storm(limit)
    assert limit.statistics().lowest == limit.statistics().last == 1
    for clock.now in range(100, 1000):
        limit.grant("a", 0)
    assert (limit.statistics().lowest, limit.statistics().last) == (1, 20)


@pytest.mark.parametrize(
    ("used", "seconds", "rate"),
    [(6000, 1.0, 6000), (100, 1.0, FIRST_GUESS), (6000, 0.0, 60_000), (150_000, 1.0, HIGHEST_RATE)],
)
def test_the_first_throttling_sets_a_rate_from_what_was_measured(used: int, seconds: float, rate: float):
    clock = Clock()
    limit = RateLimit(clock=clock)
    limit.grant("a", 0)
    clock.now = seconds
    storm(limit, "a", used)
    assert limit.statistics().last == pytest.approx(rate * DECREASE)


def test_hours_after_throttling_permits_are_still_to_be_had():
    clock = Clock()
    limit = RateLimit(clock=clock)
    storm(limit)
    for clock.now in range(10_000):
        assert size(limit, "a") > 0
    assert limit.statistics().last == HIGHEST_RATE


def test_a_holder_that_has_gone_stops_counting_after_its_lease():
    clock = Clock()
    limit = RateLimit(1000, clock=clock)
    limit.grant("gone", 0)
    assert size(limit, "here") == 50
    clock.now = 10.0
    assert size(limit, "here") == 50
    clock.now = 10.1
    assert size(limit, "here") == 100


def test_an_expelled_holder_gets_nothing_and_counts_no_more():
    limit = RateLimit(1000, clock=Clock())
    for holder in ("lost", "here"):
        limit.grant(holder, 0)
    limit.fence("lost")
    limit.fence("lost")
    limit.fence("never seen")
    assert size(limit, "here") == 100
    with pytest.raises(LeaseLostError, match="lost was taken for lost"):
        limit.grant("lost", 5)
    storm(limit, "lost", 7)  # its last words: they are noted, but it is not back
    assert (limit.statistics().requests, limit.statistics().throttled) == (7, 3)
    assert size(limit, "here") == 85


def test_a_span_of_throttling_says_from_when_to_when_and_how_far_down():
    clock = Clock()
    limit = RateLimit(100, clock=clock)
    for clock.now in (10.0, 12.5, 16.0):
        storm(limit)
    clock.now = 17.0
    limit.grant("a", 0)
    (span,) = limit.statistics().spans
    assert (span.began_seconds_ago, span.last_seconds_ago, span.refused) == (7.0, 1.0, 5)
    assert (span.before, span.lowest) == (100, pytest.approx(100 * 0.85 * 0.5 * 0.85))
    assert span.recovered_seconds_ago is None
    while limit.statistics().last != 100:
        clock.now += 1
        limit.grant("a", 0)
    (span,) = limit.statistics().spans
    assert span.recovered_seconds_ago == 0.0
    assert span.last_seconds_ago > 3


def test_throttling_after_a_quiet_time_is_another_span_and_they_are_never_very_many():
    clock = Clock()
    limit = RateLimit(100, clock=clock)
    for clock.now in (0.0, 9.0, 30.0):
        storm(limit)
    assert [span.refused for span in limit.statistics().spans] == [4, 3]
    for number in range(300):
        clock.now = 100.0 + 30 * number
        storm(limit)
    spans = limit.statistics().spans
    assert len(spans) == 100
    assert (
        sum(span.refused for span in spans) == 100 * FEWEST_REFUSALS + 203
    )  # of a span that goes on, those that said so
    assert limit.statistics().throttled == 303 * FEWEST_REFUSALS
    assert spans[-1].last_seconds_ago == 0.0


def test_a_span_that_another_follows_keeps_the_rate_that_it_began_with():
    clock = Clock()
    limit = RateLimit(clock=clock)
    limit.grant("a", 0)
    clock.now = 1.0
    storm(limit, "a", 2000, 5.0)
    clock.now = 8.0  # within the time that the store asked for and the gap
    storm(limit)
    (span,) = limit.statistics().spans
    assert (span.before, span.refused) == (2000.0, 60)


@pytest.mark.parametrize(("used", "wait"), [(0, 1.0), (60, 1.6), (100, 2.0), (1000, 2.0)])
def test_what_a_throttled_holder_gives_up_is_handed_out_again(used: int, wait: float):
    limit = RateLimit(100, clock=Clock())
    for holder, requests in (("a", 100), ("b", 100)):
        while requests > 0:
            requests -= limit.grant(holder, 0).requests or 0
    storm(limit, "a", used)
    assert limit.grant("c", 0).wait_seconds == pytest.approx(wait, abs=0.11)


def test_a_storm_does_not_idle_everybody_for_what_nobody_uses():
    limit = RateLimit(100, clock=Clock())
    for _ in range(128):  # as many requests were in flight, and each asks again
        limit.grant("a", 0)
        storm(limit)
    assert limit.grant("a", 0).wait_seconds <= 2 * BATCH_SECONDS


@pytest.mark.parametrize(
    ("requests", "refusals"), [(0, 3), (10, 3), (100, 7), (1_500, 47), (10_000, 243)]
)
def test_a_store_throttles_when_more_is_refused_than_a_share_that_is_by_chance(
    requests: int, refusals: int
):
    limit = RateLimit(5_000, clock=Clock())
    limit.grant("a", requests)
    told = [limit.throttled("a", 0, 1.0) for _ in range(refusals)]
    assert told == [False] * (refusals - 1) + [True]


def test_stray_refusals_change_no_rate_and_make_nobody_wait():
    """One request in a hundred is refused, each time with a wish that all wait for a second."""
    clock = Clock()
    limit = RateLimit(1_000, clock=clock)
    for clock.now in [number / 10 for number in range(30)]:
        assert limit.grant("a", 100).wait_seconds < BATCH_SECONDS
        assert not limit.throttled("a", 0, 1.0)
    found = limit.statistics()
    assert (found.throttled, found.lowest, found.last, found.spans) == (30, None, 1_000, ())


@pytest.mark.parametrize(
    ("requests", "refused", "is_restored"),
    [
        (300, 60, True),  # as large a share at a far lower rate: the rate is not the reason
        (300, 28, False),  # less than half of the share: the lower rate has helped
        (30, 12, False),  # too few to say
        (300, 120, False),  # more than chance ever is
    ],
)
def test_a_share_that_does_not_fall_with_the_rate_is_taken_for_chance(
    requests: int, refused: int, is_restored: bool
):
    clock = Clock()
    limit = RateLimit(1_000, clock=clock)
    limit.grant("a", 1_000)
    assert [limit.throttled("a", 0, None) for _ in range(200)][-1]
    clock.now = 1.5
    storm(limit)  # the rate is halved
    for clock.now in (4.5, 5.0, 5.5, 6.0):
        limit.grant("a", requests // 4)
        for _ in range(refused // 4):
            limit.throttled("a", 0, None)
    assert (limit.statistics().last == 1_000) == is_restored


def test_a_share_that_was_taken_for_chance_no_longer_counts_as_throttling():
    clock = Clock()
    limit = RateLimit(1_000, clock=clock)
    limit.grant("a", 1_000)
    assert [limit.throttled("a", 0, None) for _ in range(100)][-1]
    for clock.now in (1.5, 3.0):
        storm(limit)
    for clock.now in (4.5, 5.0, 5.5, 6.0, 7.0, 8.0):
        limit.grant("a", 100)
        told = [limit.throttled("a", 0, None) for _ in range(10)]
    assert told == [False] * 10
    assert limit.statistics().last == 1_000


def test_refusals_of_an_earlier_second_are_forgotten():
    clock = Clock()
    limit = RateLimit(1_000, clock=clock)
    for clock.now in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5):
        assert not limit.throttled("a", 0, None)


def test_the_rate_does_not_fall_below_a_tenth_of_what_was_served_in_a_second():
    clock = Clock()
    limit = RateLimit(5_000, clock=clock)
    limit.grant("a", 4_000)
    for clock.now in range(2, 40):
        storm(limit)
    assert limit.statistics().lowest == 400
