"""Cancel a commit from another thread: a signal handler, a Spark callback, a user's code."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CancelToken:
    """Cancels a commit from another thread: pass it to `commit_job`, and call `cancel`.

    It is set once and cannot be reset. The commit then ends with `CommitCancelledError`, with everything
    kept, and the same call with a new token finishes it.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel; idempotent. Requests in flight end, and nothing new begins.

        The callbacks of `on_cancel` run in this thread.
        """
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` when cancelled; at once if that has already happened."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()
