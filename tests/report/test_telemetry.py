"""Spans of commits, as OpenTelemetry's SDK collects them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer, get_current_span

import ray_committer
from ray_committer.events import (
    CommitStarted,
    Notice,
    StageEnded,
    StageStarted,
    Throttled,
    WorkerLost,
)
from ray_committer.protocol import statistic_names as names
from ray_committer.report import telemetry


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Iterator[Tracer]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    spans = exporter.get_finished_spans()
    assert len({span.name for span in spans}) == len(spans)
    return {span.name: span for span in spans}


def test_a_commit_is_a_span_with_a_span_for_each_stage(
    write_job, dest: Path, tracer: Tracer, exporter: InMemorySpanExporter
):
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "yy"}})
    report = ray_committer.commit_job(str(dest), executor="threads", on_event=telemetry.spans(tracer))
    spans = by_name(exporter)
    commit = spans.pop("commit_job")
    assert commit.parent is None
    assert dict(commit.attributes or {}) == {
        "ray_committer.destination": str(dest),
        "ray_committer.job.id": "job_1",
        "ray_committer.job.attempt": 0,
        "ray_committer.executor": "threads",
        "ray_committer.manifests": 2,
        "ray_committer.files": 2,
        "ray_committer.files_done": 2,
        "ray_committer.bytes": 3,
        "ray_committer.bytes_done": 3,
        "ray_committer.resumed": False,
    }
    stages = {stage.removeprefix("job_stage_") for stage in report.stage_seconds}
    assert set(spans) == stages - {names.COMMIT_JOB}
    assert {"load_manifests", "rename_files", "cleanup"} <= set(spans)
    for span in spans.values():
        assert span.parent is not None
        assert span.parent.span_id == commit.context.span_id
        assert commit.start_time <= span.start_time <= span.end_time <= commit.end_time
        assert span.status.status_code is StatusCode.UNSET


def test_a_failed_commit_has_its_error_in_the_span_of_the_stage_and_of_the_commit(
    write_job, dest: Path, tracer: Tracer, exporter: InMemorySpanExporter
):
    write_job({0: {"a": "x"}, 1: {"a": "y"}})
    with pytest.raises(ray_committer.errors.PreflightError) as caught:
        ray_committer.commit_job(str(dest), on_event=telemetry.spans(tracer))
    spans = by_name(exporter)
    assert set(spans) == {"commit_job", "find_job", "load_manifests", "preflight"}
    for name in ("commit_job", "preflight"):
        assert spans[name].status.status_code is StatusCode.ERROR
        assert spans[name].status.description == str(caught.value)
        (noted,) = spans[name].events
        assert (noted.name, dict(noted.attributes)) == (
            "exception",
            {"exception.message": str(caught.value)},
        )
    assert spans["load_manifests"].status.status_code is StatusCode.UNSET


def test_the_commit_is_part_of_the_trace_of_who_calls_it(
    write_job, dest: Path, tracer: Tracer, exporter: InMemorySpanExporter
):
    write_job({0: {"a": "x"}})
    with tracer.start_as_current_span("the pipeline"):
        ray_committer.commit_job(str(dest), on_event=telemetry.spans(tracer))
    spans = by_name(exporter)
    parent = spans["commit_job"].parent
    assert parent is not None
    assert parent.span_id == spans["the pipeline"].context.span_id


def test_what_a_person_should_know_is_an_event_of_the_stage_in_which_it_happened(
    tracer: Tracer, exporter: InMemorySpanExporter
):
    sink = telemetry.spans(tracer)
    sink(CommitStarted("/t", "job_1", 0, "ray"))
    for event in (
        StageStarted(names.COMMIT_JOB),
        StageStarted(names.RENAME_FILES),
        WorkerLost("worker 1", "10.0.0.1", 77, "the node died"),
        Throttled(2.0, 1.0, refused=3, before=900.0, lowest=700.0, number=0, rate=765.0),
        StageEnded(names.RENAME_FILES, 1.0),
        Notice("read this"),
        StageEnded(names.COMMIT_JOB, 2.0),
    ):
        sink(event)
    spans = by_name(exporter)
    lost, throttled = spans["rename_files"].events
    assert lost.name == "ray_committer.worker_lost"
    assert dict(lost.attributes) == {
        "worker": "worker 1",
        "node": "10.0.0.1",
        "process": 77,
        "cause": "the node died",
    }
    assert (throttled.name, dict(throttled.attributes)["refused"]) == ("ray_committer.throttled", 3)
    (notice,) = spans["commit_job"].events
    assert (notice.name, dict(notice.attributes)) == ("ray_committer.notice", {"text": "read this"})


def test_nothing_of_opentelemetry_is_imported_by_who_does_not_use_it(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    code = (
        "import sys, ray_committer, ray_committer.report.telemetry, ray_committer.cli.main\n"
        f"ray_committer.commit_job({str(dest)!r}, executor='threads')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_without_opentelemetry_it_is_said_what_to_install(dest: Path):
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['opentelemetry', 'opentelemetry.trace']))\n"
        "from ray_committer.report import telemetry\n"
        "telemetry.spans()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SettingsError: OpenTelemetry is not installed; install ray-committer[otel]" in result.stderr


def test_a_trace_is_continued_only_in_the_block_and_only_if_there_is_one(tracer: Tracer):
    with tracer.start_as_current_span("the pipeline") as current:
        with telemetry.trace_of({"PATH": "/bin"}):
            assert get_current_span() is current
        with telemetry.trace_of({"TRACEPARENT": f"00-{TRACE}-{CALLER}-01"}):
            assert f"{get_current_span().get_span_context().span_id:x}" == CALLER
        assert get_current_span() is current


TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
CONSOLE = {
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}


def command(dest: Path, *launcher: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [*launcher, sys.executable, "-m", "ray_committer.cli", "commit", str(dest)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [*words, "--assume-complete", "--output", "json"],
        capture_output=True,
        text=True,
        check=True,
        env=kept | environment,
        timeout=60,
    )


def decoded(text: str) -> list[dict]:
    """The JSON values of a text, one after the other."""
    found, at = [], 0
    while at < len(text.rstrip()):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def test_the_command_sends_spans_if_opentelemetry_starts_it(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    result = command(
        dest,
        INSTRUMENT,
        **CONSOLE,
        OTEL_SERVICE_NAME="ray-committer",
        TRACEPARENT=f"00-{TRACE}-{CALLER}-01",
    )
    report, *spans = decoded(result.stdout)
    assert report["outcome"] == "committed"
    commit = next(span for span in spans if span["name"] == "commit_job")
    assert commit["parent_id"] == f"0x{CALLER}"
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}
    assert commit["resource"]["attributes"]["service.name"] == "ray-committer"
    assert "rename_files" in [span["name"] for span in spans]


def test_the_command_sends_no_spans_by_itself(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    assert len(decoded(command(dest, **CONSOLE).stdout)) == 1
