"""The Grafana dashboard as its queries, and what those ask of the metrics that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql

DASHBOARD = Path(__file__).parents[2] / "cluster_configs" / "grafana" / "ray_committer.json"

Samples = Mapping[str, list[Mapping[str, str]]]
"""The labels of each sample, by the name of its metric."""


@dataclass(frozen=True)
class Query:
    """A query of a panel, with the variables as Grafana fills them in for all sessions."""

    panel: str
    expression: str
    legend: str

    @property
    def legend_labels(self) -> list[str]:
        return re.findall(r"\{\{(\w+)\}\}", self.legend)


def load() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def queries() -> list[Query]:
    return [
        Query(panel["title"], filled(target["expr"]), target["legendFormat"])
        for panel in load()["panels"]
        for target in panel["targets"]
    ]


def filled(expression: str) -> str:
    for variable, value in {"$session": ".+", "$__rate_interval": "1m", "$__range": "1h"}.items():
        expression = expression.replace(variable, value)
    return expression


def missing(expression: str, samples: Samples) -> list[str]:
    """What of a query no sample has: metrics, labels, and values of labels."""
    found: list[str] = []
    for selector, grouping in _selectors(promql.parse(expression), []):
        present = samples.get(selector.name, [])
        if not present:
            found.append(f"metric {selector.name}")
            continue
        labels = set.union(*(set(sample) for sample in present))
        matchers = selector.matchers.matchers
        wanted = {*grouping, *(matcher.name for matcher in matchers)}
        found.extend(f"label {name} of {selector.name}" for name in sorted(wanted - labels))
        for matcher in matchers:
            if matcher.name in labels and not any(_fits(matcher, sample) for sample in present):
                found.append(f"{matcher.name} {matcher.value} of {selector.name}")
    return found


def _selectors(
    node: promql.Expr, grouping: list[str]
) -> Iterator[tuple[promql.VectorSelector, list[str]]]:
    """The metrics that an expression reads, each with the labels that it is grouped by."""
    if isinstance(node, promql.VectorSelector):
        yield node, grouping
    elif isinstance(node, promql.MatrixSelector):
        yield node.vector_selector, grouping
    elif isinstance(node, promql.AggregateExpr):
        yield from _selectors(node.expr, grouping + (node.modifier.labels if node.modifier else []))
    elif isinstance(node, promql.BinaryExpr):
        yield from _selectors(node.lhs, grouping)
        yield from _selectors(node.rhs, grouping)
    elif isinstance(node, promql.Call):
        for argument in node.args:
            yield from _selectors(argument, grouping)
    elif isinstance(node, promql.ParenExpr):
        yield from _selectors(node.expr, grouping)
    elif not isinstance(node, promql.NumberLiteral):
        raise TypeError(f"no test knows what {type(node).__name__} reads: {node}")


def _fits(matcher: promql.Matcher, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op == promql.MatchOp.Equal:
        return value == matcher.value
    if matcher.op == promql.MatchOp.Re:
        return re.fullmatch(matcher.value, value) is not None
    raise TypeError(f"no test knows what {matcher.op} finds")
