"""A commit as OpenTelemetry spans: one for the commit, and below it one per stage.

This needs the extra ``otel``, OpenTelemetry's API, which is imported only when it is used. The
program, or ``opentelemetry-instrument``, sets up the SDK that decides where spans go. Names and
attributes: ``docs/events.md``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ray_committer.errors import SettingsError
from ray_committer.events import (
    CommitStarted,
    Event,
    EventSink,
    FilesRenamed,
    JobLoaded,
    Notice,
    ShardRequeued,
    StageEnded,
    StageStarted,
    Throttled,
    WorkerLost,
)
from ray_committer.protocol import statistic_names as names
from ray_committer.report.event_log import event_fields
from ray_committer.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

PREFIX = "ray_committer."


def spans(tracer: Tracer | None = None) -> EventSink:
    """Return a sink for one commit's events; `tracer` is by default from the global tracer provider.

    The span of the commit is a child of the span that is current when this is called. `SettingsError` if
    OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError as e:
        raise SettingsError(
            "OpenTelemetry is not installed", "install ray-committer[otel], or do not ask for spans"
        ) from e
    return _Spans(tracer or trace.get_tracer("ray_committer", __version__)).event


@contextmanager
def trace_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Continue the trace of ``TRACEPARENT`` and ``TRACESTATE`` in the block, if they are given."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: environment.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    continued = TraceContextTextMapPropagator().extract(carrier, context.get_current())
    token = context.attach(continued)
    try:
        yield
    finally:
        context.detach(token)


@dataclass(slots=True)
class _Before:
    """A stage before the commit, in nanoseconds since 1970."""

    stage: str
    began: int = field(default_factory=time.time_ns)
    ended: int | None = None


class _Spans:
    """The open spans: the span of the commit, and the spans of the stages that have begun."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import context

        self._tracer = tracer
        self._lock = threading.Lock()
        # Noted now: the events come from other threads, whose current span is another one.
        self._outside = context.get_current()
        self._open: list[tuple[str, Span]] = []
        self._before: list[_Before] = []
        self._of_commit: dict[str, str | int | bool] = {}

    def event(self, event: Event) -> None:
        with self._lock:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._begin(event.stage)
        elif isinstance(event, StageEnded):
            self._end(event)
        elif isinstance(event, CommitStarted):
            self._describe(
                {
                    "destination": event.destination,
                    "job.id": event.job_id,
                    "job.attempt": event.job_attempt,
                    "executor": event.executor,
                }
            )
        elif isinstance(event, JobLoaded):
            loaded = {"manifests": event.manifests, "files": event.files, "bytes": event.bytes}
            self._describe({**loaded, "resumed": event.resumed})
        elif isinstance(event, FilesRenamed):
            self._describe({"files_done": event.done, "bytes_done": event.bytes_done})
        elif isinstance(event, Notice | WorkerLost | ShardRequeued | Throttled):
            self._note(event)

    def _begin(self, stage: str) -> None:
        from opentelemetry import trace

        if self._open:
            within = trace.set_span_in_context(self._open[-1][1], self._outside)
            self._open.append((stage, self._tracer.start_span(_span_name(stage), within)))
        elif stage in names.BEFORE_COMMIT:
            self._before.append(_Before(stage))
        else:
            self._begin_commit(stage)

    def _begin_commit(self, stage: str) -> None:
        """Begin the outer span, which also has the stages that came before it is known to be one."""
        from opentelemetry import trace

        before, self._before = self._before, []
        # Stages before the commit are known to belong to it only when it begins.
        began = before[0].began if before else None
        span = self._tracer.start_span(_span_name(stage), self._outside, start_time=began)
        span.set_attributes(_prefixed(self._of_commit))
        self._open.append((stage, span))
        within = trace.set_span_in_context(span, self._outside)
        for stage_before in before:
            inner = self._tracer.start_span(
                _span_name(stage_before.stage), within, start_time=stage_before.began
            )
            inner.end(stage_before.ended)

    def _end(self, event: StageEnded) -> None:
        """End the stage's span, and those within it that an interrupt left open."""
        from opentelemetry.trace import Status, StatusCode

        if event.stage not in [stage for stage, _ in self._open]:
            for stage_before in self._before:
                stage_before.ended = (
                    time.time_ns() if stage_before.stage == event.stage else stage_before.ended
                )
            return
        while True:
            stage, span = self._open.pop()
            if event.error is not None:
                span.set_status(Status(StatusCode.ERROR, event.error))
                span.add_event("exception", {"exception.message": event.error})
            span.end()
            if stage == event.stage:
                return

    def _describe(self, attributes: Mapping[str, str | int | bool]) -> None:
        """Add attributes to the commit, whose span may not exist yet."""
        self._of_commit.update(attributes)
        if self._open:
            self._open[0][1].set_attributes(_prefixed(attributes))

    def _note(self, event: Notice | WorkerLost | ShardRequeued | Throttled) -> None:
        """Add an event that a person should know to the span of the stage in which it happened."""
        if self._open:
            known = event_fields(event)
            name = known.pop("event")
            values = {key: value for key, value in known.items() if value is not None}
            self._open[-1][1].add_event(f"{PREFIX}{name}", values)


def _span_name(stage: str) -> str:
    return "commit_job" if stage == names.COMMIT_JOB else stage.removeprefix("job_stage_")


def _prefixed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {PREFIX + name: value for name, value in attributes.items()}
