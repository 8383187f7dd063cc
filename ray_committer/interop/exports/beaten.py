"""An export that another process has overtaken begins again, after a short pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ray_committer.errors import ExportError, mark
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep

ATTEMPTS = 20
"""How often an export begins again that came no further."""
MOST_RUNS = 4
"""It waits up to so many times as long as it ran: else two long ones stop each other forever."""

_Result = TypeVar("_Result")


class BeatenError(Exception):
    """Another process was faster, or has taken over."""


def until_done(
    run: Callable[[], _Result],
    place: str,
    last_seen: Callable[[], int] = lambda: 0,
    sleep: Sleep = waiting.sleep,
) -> _Result:
    """The result of `run`, which is called again after `BeatenError`; `ExportError` about `place` if the
    `last_seen` version of the target did not change for `ATTEMPTS` calls."""
    last, attempt = last_seen(), 0
    while True:
        began = time.monotonic()
        try:
            return run()
        except BeatenError as e:
            attempt = attempt + 1 if last_seen() == last else 1
            last = last_seen()
            if attempt >= ATTEMPTS:
                raise ExportError(
                    f"{mark(place)}: cannot be exported beside other programs ({e})"
                ) from e
            runs = (time.monotonic() - began) * min(attempt - 1, MOST_RUNS)
            sleep(waiting.OTHERS.after(attempt, runs))
