"""Send a commit's events also to a file, and to OpenTelemetry if its variables ask for that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ray_committer.cli.lines import tell
from ray_committer.cli.otel import asking_variable, set_up_spans
from ray_committer.events import EventSink, to_all
from ray_committer.report import telemetry
from ray_committer.report.event_log import event_log


@contextmanager
def listening(shown: EventSink, events: str | None) -> Iterator[EventSink]:
    """Pass events on to the sink that shows them, to the file `events`, and as spans if asked for."""
    with ExitStack() as stack:
        sinks = [shown]
        if events is not None:
            log = event_log(events, on_failure=lambda text: tell(f"  {text}"))
            sinks.append(stack.enter_context(log))
        asking = asking_variable(os.environ)
        if asking is not None:
            sinks.extend(_spans(asking))
        yield to_all(*sinks)


def _spans(asking: str) -> list[EventSink]:
    """Return a sink for spans, or write a line why there is none.

    A variable that is set for all programs of a machine must not stop a commit.
    """
    try:
        set_up_spans()
        return [telemetry.spans()]
    except Exception as e:  # noqa: BLE001 - whatever it is, the commit works without spans
        tell(f"  no spans are sent, although {asking} asks for them: {e}")
        return []
