"""The Grafana dashboard as a file; tests/integration/ray/test_dashboard.py has it on real metrics."""

from __future__ import annotations

import itertools

import promql_parser as promql
import pytest

from tests.cluster_configs.dashboard import Query, load, missing, queries


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.panel)
def test_every_query_is_promql(query: Query):
    promql.parse(query.expression)
    assert "$" not in query.expression


def test_every_query_is_of_the_sessions_that_were_chosen():
    for panel in load()["panels"]:
        for target in panel["targets"]:
            selectors = target["expr"].count("{")
            assert selectors == target["expr"].count('SessionName=~"$session"}') > 0


def test_panels_say_what_they_show_and_do_not_overlap():
    panels = load()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels)
    places = [panel["gridPos"] for panel in panels]
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_any_prometheus_can_be_chosen():
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in load()["panels"]:
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])
    assert [variable["name"] for variable in load()["templating"]["list"]] == ["datasource", "session"]


SAMPLES = {"m_total": [{"a": "1", "b": "x"}, {"a": "2"}]}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ('sum by (a) (rate(m_total{b="x"}[1m]))', []),
        ("n_total", ["metric n_total"]),
        ("sum by (a, c) (rate(m_total[1m]))", ["label c of m_total"]),
        ('m_total{c=~"x|y"}', ["label c of m_total"]),
        ('m_total{b=~"y|z"}', ["b y|z of m_total"]),
        ('sum(m_total{a="3"}) / (sum(n_total) or vector(0))', ["a 3 of m_total", "metric n_total"]),
        ("histogram_quantile(0.5, sum by (le) (m_total))", ["label le of m_total"]),
    ],
)
def test_what_a_query_asks_for_and_is_not_there_is_found(expression: str, found: list[str]):
    assert missing(expression, SAMPLES) == found
