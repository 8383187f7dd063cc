"""Who else is told of a commit's events: a file, and OpenTelemetry where its variables ask for that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ray_committer import telemetry
from ray_committer.cli.lines import tell
from ray_committer.cli.otel import asking_variable, set_up_spans
from ray_committer.events import EventSink, to_all
from ray_committer.report.event_log import event_log


@contextmanager
def listening(shown: EventSink, events: str | None) -> Iterator[EventSink]:
    """Pass events on to what shows them, to the file `events`, and as spans if those are asked for."""
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
    """Spans, or a line on why there are none: a variable that is set for all programs of a machine
    should not keep a job from its commit."""
    try:
        set_up_spans()
        return [telemetry.spans()]
    except Exception as e:  # noqa: BLE001 - whatever it is, the commit can do without spans
        tell(f"  no spans, though {asking} asks for them: {e}")
        return []
