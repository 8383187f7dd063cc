"""Requests that must not be repeated blindly: if there is no answer, first check whether it was done."""

from __future__ import annotations

from collections.abc import Callable

from ray_committer.errors import StoreUnavailableError
from ray_committer.limits import waiting

ATTEMPTS = 8


def settle(
    request: Callable[[], object],
    is_done: Callable[[], bool] = lambda: False,
    *,
    attempts: int = ATTEMPTS,
) -> None:
    """Make `request`; repeat it while the store does not answer and `is_done` returns False. One that
    fails if it was done, such as a rename, needs no `is_done`: its caller checks then."""
    for attempt in range(1, attempts + 1):
        try:
            request()
        except StoreUnavailableError:
            # Asked only without an answer: after a refusal the caller knows that nothing was done.
            if is_done():
                return
            if attempt == attempts:
                raise
            waiting.sleep(waiting.REQUEST.after(attempt))
        else:
            return
