"""Set up OpenTelemetry's SDK for a command, from OpenTelemetry's own environment variables.

A set-up by ``opentelemetry-instrument`` is left as it is. Source: OpenTelemetry's specification of
environment variables, and the entry points of its exporters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ray_committer.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_ASKING = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_INSTALL = "install opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http"


def asking_variable(environment: Mapping[str, str]) -> str | None:
    """The variable that asks for spans; None if there is none."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    return next((name for name in _ASKING if environment.get(name)), None)


def set_up_spans() -> None:
    """Send spans to the place in the variables, and join the trace of ``TRACEPARENT``, if there is one.

    `SettingsError` shows what is not installed.
    """
    try:
        from opentelemetry import context, propagate, trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as e:
        raise SettingsError("OpenTelemetry's SDK is not installed", _INSTALL) from e
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        os.environ.setdefault("OTEL_SERVICE_NAME", "ray-committer")
        provider = TracerProvider()  # it flushes when the process ends
        for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())))
        trace.set_tracer_provider(provider)
    carrier = {name: os.environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    context.attach(propagate.extract(carrier))


def _exporter(name: str) -> SpanExporter:
    from importlib.metadata import entry_points  # most commands send no spans

    if name == "otlp":
        asked = [f"OTEL_EXPORTER_OTLP_{kind}PROTOCOL" for kind in ("TRACES_", "")]
        protocol = next((os.environ[key] for key in asked if os.environ.get(key)), "http/protobuf")
        name = _PROTOCOLS.get(protocol, protocol)
    found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        raise SettingsError(f"there is no exporter {name!r}", _INSTALL)
    exporter: SpanExporter = found[0].load()()
    return exporter
