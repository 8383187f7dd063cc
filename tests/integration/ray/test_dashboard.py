"""The Grafana dashboard on the metrics of real commits, asked for by a real Prometheus."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray

import ray_committer
from ray_committer import CommitOptions, CommitReport
from ray_committer.events import Event, StageStarted
from ray_committer.executors.ray.executor import RayPool
from ray_committer.protocol import statistic_names as names
from tests.integration.ray.jobs import write_files
from tests.servers.prometheus import Prometheus, prometheus_server

pytestmark = [
    pytest.mark.wide,
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(300),
]

RENAMES = 'sum(ray_committer_operations_total{operation="commit_file_rename"})'
DASHBOARD = Path(__file__).parents[3] / "cluster_configs" / "grafana" / "ray_committer.json"
PANELS = json.loads(DASHBOARD.read_text())["panels"]
ATTEMPTS = 3
"""How many commits there are at most, until all reports of one of them have arrived."""


@dataclass(frozen=True)
class Query:
    """A query of a panel, with the variables as Grafana fills them in for all sessions."""

    panel: str
    expression: str
    legend: str

    @property
    def legend_labels(self) -> list[str]:
        return re.findall(r"\{\{(\w+)\}\}", self.legend)


def filled(expression: str, session: str = ".+") -> str:
    for variable, value in {"$session": session, "$__rate_interval": "1m", "$__range": "1h"}.items():
        expression = expression.replace(variable, value)
    return expression


QUERIES = [
    Query(panel["title"], filled(target["expr"]), target["legendFormat"])
    for panel in PANELS
    for target in panel["targets"]
]


@dataclass(frozen=True)
class Scraped:
    """A Prometheus that has scraped the workers of commits which put `files` in place."""

    prometheus: Prometheus
    files: int


@pytest.fixture(scope="module")
def scraped(
    no_shared_raylets: None, ray_cluster: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scraped]:
    """Two commits on one pool: one that meets a foreign file, and is run again; and a whole one.

    On new raylets: the others count what earlier modules did.
    """
    targets = [f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}" for node in ray.nodes()]
    root = tmp_path_factory.mktemp("dashboard")
    with (
        prometheus_server(targets) as prometheus,
        ray_committer.commit_pool(CommitOptions(workers=4)) as pool,
    ):
        assert isinstance(pool, RayPool)
        reports = commit_in_two_runs(root / "first", pool)
        renames = sum(map(done, reports)) + 1  # the one that failed is counted, too
        lost = renames - counted(prometheus, renames)
        for number in range(ATTEMPTS):
            write_files(root / str(number), tasks=4, files=2_000)
            reports.append(ray_committer.commit_job(str(root / str(number)), executor=pool))
            renames += done(reports[-1])
            before, lost = lost, renames - counted(prometheus, renames - lost)
            if lost == before:
                break
        assert lost == before
        yield Scraped(prometheus, sum(map(done, reports)) - lost)


def commit_in_two_runs(dest: Path, pool: RayPool) -> list[CommitReport]:
    """Commit while somebody else writes a file of the job's names, when the commit is recorded."""
    written = write_files(dest, tasks=4, files=1_000)
    foreign = dest / next(iter(written))

    def interfere(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == names.RENAME_FILES:
            foreign.write_text("of somebody else")

    reports: list[CommitReport] = []
    with pytest.raises(ray_committer.errors.CommitConflictError):
        ray_committer.commit_job(str(dest), executor=pool, on_event=interfere, on_report=reports.append)
    foreign.unlink()
    return [*reports, ray_committer.commit_job(str(dest), executor=pool)]


def done(report: CommitReport) -> int:
    return report.moved + sum(report.proved.values())


def counted(prometheus: Prometheus, renames: int) -> int:
    """The renames that Prometheus has counted when it has all, or when nothing new has come for long.

    Ray's workers report to their node each ten seconds what is new since the last report, and Prometheus
    scrapes the node. On a busy machine such a report can be lost, and Ray does not repeat it.
    """
    value, changed = -1.0, time.monotonic()
    while value < renames and time.monotonic() < changed + 45:
        time.sleep(0.5)
        now = prometheus.value(RENAMES)
        if now != value:
            value, changed = now, time.monotonic()
    return round(value)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.panel)
def test_prometheus_has_an_answer_for_every_panel(scraped: Scraped, query):
    found = scraped.prometheus.query(query.expression)
    assert found
    for sample in found:
        assert set(query.legend_labels) == set(sample["metric"]) - {"__name__"}
    # What happened before the first scrape has no rate: the few failures all may have.
    if query.panel != "Failed, throttled and repeated requests a second":
        assert any(float(sample["value"][1]) > 0 for sample in found)


def answer(scraped: Scraped, panel: str) -> dict[str, float]:
    """The values of a panel, by their legends."""
    (query,) = [query for query in QUERIES if query.panel == panel]
    values = {}
    for sample in scraped.prometheus.query(query.expression):
        legend = query.legend
        for label in query.legend_labels:
            legend = legend.replace(f"{{{{{label}}}}}", sample["metric"][label])
        values[legend] = float(sample["value"][1])
    return values


def test_the_numbers_of_the_panels_are_those_of_the_reports(scraped: Scraped):
    assert answer(scraped, "Files put in place") == {"files": scraped.files}
    assert answer(scraped, "Requests that failed")["requests"] > 0
    assert sum(answer(scraped, "Commit workers").values()) == 4
    assert len(answer(scraped, "Files a second, by worker")) == 4
    assert "op_rename" in answer(scraped, "Requests to the store a second")
    assert "op_rename.failures" in answer(scraped, "Failed, throttled and repeated requests a second")


def test_the_session_can_be_chosen(scraped: Scraped):
    (session,) = {one["metric"]["SessionName"] for one in scraped.prometheus.query("ray_actors")}
    for panel in PANELS:
        for target in panel["targets"]:
            assert scraped.prometheus.query(filled(target["expr"], session))
            of_none = scraped.prometheus.query(filled(target["expr"], "another"))
            assert [sample["value"][1] for sample in of_none] in ([], ["0"]), json.dumps(target)
