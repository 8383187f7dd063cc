"""Threads of a test: many at once, and those that it has started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable


def running_threads() -> set[threading.Thread]:
    """The threads that Python started. Those of a library, which Python calls ``Dummy-1`` once they have
    run some of its code, come and go with no test."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("Dummy-")}


def at_once(works: Iterable[Callable[[], object]]) -> None:
    """Run each in a thread of its own; all must end without an error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - shown by the assertion
            errors.append(e)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
