"""The events of a commit as JSON lines in a file, for programs that watch a commit or keep its history.

Each line is one event and is written when the event happens. So you can follow the file (``tail -f``),
and the lines are there if the process dies. There are at most a few lines per shard or stage, and no
lines per file. ``docs/events.md`` describes them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ray_committer.errors import EventLogError
from ray_committer.events import Event, EventSink
from ray_committer.version import __version__

FORMAT = 1
"""Increased when a field changes its meaning or is removed; not for new events and fields."""

_log = logging.getLogger(__name__)


@contextmanager
def event_log(
    path: str | Path, *, on_failure: Callable[[str], None] = _log.warning
) -> Iterator[EventSink]:
    """Append each event to the file at `path` until the block ends; any thread can call the sink.

    `EventLogError` if the file cannot be written. If it cannot be written any more later, `on_failure`
    is called once and the commit continues without it.
    """
    log = _EventLog(str(path), on_failure)
    try:
        yield log.event
    finally:
        log.close()


def event_fields(event: Event) -> dict[str, Any]:
    """An event as values for JSON: its name, such as ``files_renamed``, and its fields."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"event": event_name(type(event)), **msgspec.to_builtins(values)}


def event_name(kind: type[Event]) -> str:
    """The name of an event class: ``FilesRenamed`` is ``files_renamed``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


class _EventLog:
    def __init__(self, path: str, on_failure: Callable[[str], None]) -> None:
        self._path = path
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._file: BinaryIO | None = None
        try:
            # Unbuffered and appending: each event is in the file when it happens, also if the process
            # dies then.
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by the last event
            self._write({"event": "log_opened", "format": FORMAT, "ray_committer": __version__})
        except OSError as e:
            self.close()
            raise EventLogError(
                f"{path}: the events cannot be written there ({e.strerror or e}), and nothing was "
                f"changed",
                "choose a file in a directory that exists and is writable, or log no events",
            ) from e

    def event(self, event: Event) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._write(event_fields(event))
            except OSError as e:
                failure = e
            else:
                return
        self.close()
        # Outside the lock: what is told may report an event, which comes back here.
        self._tell(failure)

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as e:  # a network file system may report only now that it kept nothing
            self._tell(e)

    def _tell(self, failure: OSError) -> None:
        self._on_failure(
            f"{self._path}: events cannot be written there any more ({failure.strerror or failure}); "
            f"the commit continues without them"
        )

    def _write(self, what: dict[str, Any]) -> None:
        """Write one line with one request, so that lines of several commits do not mix."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "since_start_seconds": round(time.monotonic() - self._started, 3),
            **what,
        }
        data = msgspec.json.encode(line) + b"\n"
        assert self._file is not None  # noqa: S101 - the callers ensure it
        if self._file.write(data) != len(data):
            raise OSError("the disk is full")
