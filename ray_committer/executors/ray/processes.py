"""What runs inside Ray's processes: plain functions and classes, which `remote` wraps.

They are not decorated here: Ray pickles a decorated function by value, and then its module's globals are
private copies and locks in them cannot be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ray_committer.executors.base import OpenResources
from ray_committer.version import __version__

_opened: dict[str, Any] = {}


def run_task(
    resources_key: str, open_resources: OpenResources, work: Callable[[Any, Any], Any], item: Any
) -> Any:
    """Run work in a Ray task; resources are opened once a process and key."""
    if resources_key not in _opened:
        _opened.clear()
        _opened[resources_key] = open_resources()
    return work(_opened[resources_key], item)


class CommitWorker:
    """A long-lived worker: its resources stay open between calls. Run by Ray as a threaded actor."""

    def __init__(self, open_resources: OpenResources) -> None:
        self._resources = open_resources()

    def identify(self) -> tuple[str, int]:
        """The version of this package on the worker's node, and the process id."""
        return __version__, os.getpid()

    def run(self, work: Callable[[Any, Any], Any], item: Any) -> Any:
        """Run work on one item."""
        return work(self._resources, item)

    def cancel(self) -> None:
        """Let running work stop at its next step."""
        self._resources.cancel()
