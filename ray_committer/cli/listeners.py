"""Send a commit's events also to a file, and as spans if the command was started with OpenTelemetry."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ray_committer.cli.lines import tell
from ray_committer.events import EventSink, to_all
from ray_committer.report import telemetry
from ray_committer.report.event_log import event_log


@contextmanager
def listening(shown: EventSink, events: str | None) -> Iterator[EventSink]:
    """Pass events on to the sink that shows them, to the file `events`, and as spans."""
    with ExitStack() as stack:
        sinks = [shown]
        if events is not None:
            log = event_log(events, on_failure=lambda text: tell(f"  {text}"))
            sinks.append(stack.enter_context(log))
        if "opentelemetry" in sys.modules:  # `opentelemetry-instrument` imports it before the command
            try:
                stack.enter_context(telemetry.trace_of(os.environ))
                sinks.append(telemetry.spans())
            except Exception as e:  # noqa: BLE001 - a broken agent of a machine must not stop a commit
                tell(f"  no spans: OpenTelemetry is not usable here: {type(e).__name__}: {e}")
        yield to_all(*sinks)
