"""Let Ctrl-C and SIGTERM cancel a commit in an orderly way."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ray_committer.cli.errors import explain_command
from ray_committer.cli.lines import interrupt_lines
from ray_committer.errors import CommitCancelledError


@contextmanager
def cancel_on_signals(
    cancel: Callable[[], None], say: Callable[[str], None] = interrupt_lines
) -> Iterator[None]:
    """Call `cancel` at the first Ctrl-C or SIGTERM, and stop at once at the second; `say` shows this."""
    received = itertools.count()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if next(received) > 0:  # perhaps while the first signal is still being handled
            more = explain_command(CommitCancelledError.id)
            say(f"stopped at once; run the same command to finish; see: {more}")
            os._exit(CommitCancelledError.exit_code)  # requests in flight may take minutes to end
        say("cancelling; press Ctrl-C again to stop at once")
        cancel()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
