"""The threads that a test has started, told from those of the process around it."""

from __future__ import annotations

import threading


def running_threads() -> set[threading.Thread]:
    """The threads that Python started. Those of a library, which Python calls ``Dummy-1`` once they have
    run some of its code, come and go with no test."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("Dummy-")}
