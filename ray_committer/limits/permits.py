"""One process's part of the commit's limit of requests: permits that expire, as a lease does.

A process that cannot get new permits makes no request after its lease has expired. So a worker that a
network partition cuts off stops by itself, and nothing has to reach it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from ray_committer.errors import LeaseLostError
from ray_committer.limits import waiting
from ray_committer.limits.ratelimit import LEASE_SECONDS, Clock, Grant, LimitAuthority

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 3 * LEASE_SECONDS
"""How long a process waits, without a request, until it can get permits again."""
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.2
CLOSE_SECONDS = 2.0


@dataclass(slots=True)
class _Batch:
    """The permits of one grant, from when until when they are valid; None: any number."""

    begins: float
    ends: float
    size: int | None
    left: int | None


@dataclass(slots=True)
class _Held:
    """The permits that a process has now; guarded by the lock of its `Permits`.

    made: the requests that were permitted, of which the authority was `told` some.
    wanted: more permits are to be asked for, or were asked for without an answer yet.
    free_until: until then no limit holds, so no permit is counted. renew_at: when to ask again whether
        that is still so.
    """

    batches: deque[_Batch] = field(default_factory=deque)
    made: int = 0
    told: int = 0
    wanted: bool = False
    free_until: float = float("-inf")
    renew_at: float = float("-inf")
    unanswered_since: float | None = None
    failure: Exception | None = None
    closed: bool = False


class Permits:
    """One process's permits; call `acquire` before each request. Safe for threads. When half are used, a
    thread asks for more, so no request waits for the answer: the calling one if the authority `is_here`
    and answers at once."""

    def __init__(
        self,
        authority: LimitAuthority,
        holder: str,
        *,
        is_here: bool = False,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._authority = authority
        self._holder = holder
        self._is_here = is_here
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._held = _Held()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Wait until a request may begin; `LeaseLostError` if there is no permit for too long."""
        held = self._held
        now = self._clock()
        # Without the lock, for which all threads of the process would wait at each request. The renewal
        # still goes through `_take`, so a lease is never used beyond its end.
        if now < held.free_until and now < held.renew_at:  # no limit: nothing to wait for
            held.made += 1  # a lost update in a race of threads only blurs a statistic
            return
        with self._changed:
            while not self._take():
                self._changed.wait(self._seconds_to_wait())

    @property
    def made(self) -> int:
        """How many requests were permitted."""
        return self._held.made

    def throttled(self, retry_after_seconds: float | None) -> bool:
        """Report a throttled request. True if all must wait, for which unused permits are given up."""
        # Reported with the refusal: the limit compares refusals with requests of the same second.
        used = self._untold()
        try:
            if not self._authority.throttled(self._holder, used, retry_after_seconds):
                return False
        except Exception:  # noqa: BLE001 - without an authority there are no permits either
            with self._changed:
                # Not told after all; the next call reports them.
                self._held.told -= used
            _log.warning("throttling could not be reported to the limit of requests", exc_info=True)
        with self._changed:
            # Permits of the refused rate: used up now, they would be refused as well.
            self._held.batches.clear()
            self._held.free_until = float("-inf")
        return True

    def close(self) -> None:
        """Stop asking; idempotent. Requests that wait for a permit fail."""
        with self._changed:
            self._held.closed = True
            self._changed.notify_all()
            # Joined outside the lock, which the thread needs to see that it is closed.
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _take(self) -> bool:
        held, now = self._held, self._clock()
        while held.batches and (held.batches[0].ends <= now or held.batches[0].left == 0):
            held.batches.popleft()
        # Ends before begins: a batch whose lease has run out while the process slept is gone, even if
        # nothing of it was used. This is what stops a worker that was suspended.
        usable = bool(held.batches) and held.batches[0].begins <= now
        if usable:
            first = held.batches[0]
            held.made += 1
            if first.left is None:
                held.free_until = first.ends
            else:
                first.left -= 1
        # After the permit was taken, before any error: a process without permits must ask to know why.
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
            # Unlimited permits do not run low; renewed, a limit that was found reaches all processes.
            return now >= held.renew_at
        # At half: the rest lasts for the time of the call. With a second batch, more would be hoarded.
        return len(held.batches) == 1 and left * 2 <= size

    def _ask(self) -> None:
        if self._is_here:
            self._fetch()
        elif not self._held.wanted:
            self._held.wanted = True
            # Started on first need: most processes on local files never ask twice.
            if self._thread is None and not self._held.closed:
                self._thread = threading.Thread(target=self._refill, name="permits", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _give_up_if_lost(self, now: float) -> None:
        held = self._held
        # Before the wait for a lease: a process that gave its own back must not wait for another.
        if held.closed:
            raise LeaseLostError("this process has returned its lease and can make no more requests")
        if held.batches:
            return
        if held.unanswered_since is None:
            # From the first request that had to wait, not the last answer: who is idle may be silent.
            held.unanswered_since = now
        if now - held.unanswered_since > self._patience_seconds:
            why = held.failure or "there was no answer"
            raise LeaseLostError(
                f"no lease could be obtained for {self._patience_seconds:g} s ({why}), so no more "
                f"requests can be made",
                "run the same command to finish the commit",
            ) from held.failure

    def _seconds_to_wait(self) -> float:
        held = self._held
        if held.batches:
            # Half a millisecond at least: to wait for 0 s would spin until the batch begins.
            return max(0.0005, held.batches[0].begins - self._clock())
        return 1.0

    def _refill(self) -> None:
        """Ask for permits whenever they are wanted; the thread's main loop."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held.wanted or self._held.closed)
                if self._held.closed:
                    return
            if not self._fetch():
                waiting.sleep(RETRY_SECONDS)

    def _fetch(self) -> bool:
        """Ask once; False if there was no answer."""
        held, used = self._held, self._untold()
        # Read before the call: the lease counts from here, so it can only end too early by this
        # process's clock, never later than the authority thinks.
        asked = self._clock()
        try:
            grant = self._authority.grant(self._holder, used)
        except Exception as e:  # noqa: BLE001 - whatever it is, there is no permit
            with self._changed:
                held.told -= used
                held.failure = e
                self._changed.notify_all()
            return False
        with self._changed:
            # An answer, even with permits for later, shows that the authority lives.
            held.unanswered_since = held.failure = None
            held.wanted = False
            held.renew_at = asked + RENEW_SECONDS
            self._hold(grant, asked)
            self._changed.notify_all()
        return True

    def _untold(self) -> int:
        """Return the number of requests that the authority has not been told of, as told."""
        with self._changed:
            used = self._held.made - self._held.told
            self._held.told += used
        return used

    def _hold(self, grant: Grant, asked: float) -> None:
        """Keep a grant; unlimited permits and counted ones are not kept together."""
        held = self._held
        # A limit was found or lifted since: the old kind would go on at the old rate.
        if held.batches and (held.batches[0].size is None or grant.requests is None):
            held.batches.clear()
            held.free_until = float("-inf")
        begins, ends = asked + grant.wait_seconds, asked + grant.lease_seconds
        held.batches.append(_Batch(begins, ends, grant.requests, grant.requests))
