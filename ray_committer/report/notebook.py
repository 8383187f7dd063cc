"""The progress of a commit in a notebook: one output below the cell that is drawn again every second.

IPython is used only if the program runs in its kernel, and has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ray_committer.events import EventSink, ignore
from ray_committer.report.heartbeat import heartbeat

DRAWN_SECONDS = 1.0

Display = Callable[..., Any]
"""``IPython.display.display``."""


def notebook_display() -> Display | None:
    """Return the function that shows a value below the cell; None if this is not a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:  # a terminal has none
        return None
    from IPython.display import display

    show: Display = display
    return show


@contextmanager
def shown_in_notebook(
    on_event: EventSink, display: Display | None = None, *, every: float = DRAWN_SECONDS
) -> Iterator[EventSink]:
    """Show the progress below the cell until the block ends, if nobody else listens to the events.

    Notices stay there. Outside a notebook, and with a sink of the caller's own, this only yields the
    sink.
    """
    display = display or notebook_display()
    if display is None or on_event is not ignore:
        yield on_event
        return
    output = _Output(display)
    try:
        with heartbeat("", ignore, output.progress, every=every, notable=output.notable) as sink:
            yield sink
    finally:
        output.end()


class _Output:
    """The lines below the cell: notices, and the progress at the end; nothing if the display fails."""

    def __init__(self, display: Display) -> None:
        self._notices: list[str] = []
        self._handle: Any = None
        with suppress(Exception):
            # Whatever the front end raises: a commit must not fail because its progress cannot be shown.
            self._handle = display(_plain([]), raw=True, display_id=True)

    def notable(self, line: str) -> None:
        self._notices.append(line)
        self.end()

    def progress(self, line: str) -> None:
        self._show([*self._notices, line])

    def end(self) -> None:
        self._show(self._notices)

    def _show(self, lines: list[str]) -> None:
        with suppress(Exception):
            self._handle.update(_plain(lines), raw=True)


def _plain(lines: list[str]) -> dict[str, str]:
    return {"text/plain": "\n".join(lines)}
