"""What the pages claim of the project itself: its errors, its versions, its licence."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_committer.version import __version__
from tests.docs.blocks import ROOT
from tests.integration.spark.matrix.differences import DIFFERENCES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GAP = "\0"


def sentences() -> str:
    """Every text in the package's sources, with a gap where a value is filled in."""
    return "\n".join(
        text
        for path in (ROOT / "ray_committer").rglob("*.py")
        for text in texts(ast.parse(path.read_text()))
    )


def texts(tree: ast.AST) -> Iterator[str]:
    """Each text, and those of a call as an error joins them: what is wrong, and what to do."""
    for node in ast.walk(tree):
        yield text_of(node)
        if isinstance(node, ast.Call):
            yield "; ".join(map(text_of, node.args))


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else GAP


def test_each_line_of_the_runbook_is_one_that_is_printed():
    page = (ROOT / "docs/runbook.md").read_text()
    quoted = re.findall(r'^\| "([^"]+)" \|', page, flags=re.MULTILINE)
    assert len(quoted) > 10
    known = sentences()
    assert [text for text in quoted if text not in known] == []


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().split()
    return {package.lower(): version for package, version in (line.split("==") for line in lines)}


def test_the_versions_that_ci_runs_are_those_that_are_pinned():
    page = (ROOT / "docs/compatibility.md").read_text()
    older, newer = pins("constraints.txt"), pins("constraints-spark4.txt")
    assert f"| Ray | {older['ray']} |" in page
    assert older["ray"] == newer["ray"]
    assert f"| Spark | {older['pyspark']} (" in page
    assert f"; {newer['pyspark']} (" in page
    assert f"with RayDP {older['raydp']};" in page
    arrays = [f"{each['numpy']} and {each['pyarrow']} with Spark" for each in (older, newer)]
    assert f"| NumPy and PyArrow | {arrays[0]} 3.5; {arrays[1]} 4 |" in page
    stores = ", ".join(older[name] for name in ("gcsfs", "adlfs", "hdfs-native"))
    assert f"| gcsfs, adlfs, hdfs-native | {stores} |" in page


def test_the_change_log_has_a_part_for_this_version_in_the_kept_form():
    log = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## \[(.+?)\] - (unreleased|\d{4}-\d\d-\d\d)$", log, flags=re.MULTILINE)
    assert heads[0][0] == __version__
    kinds = set(re.findall(r"^### (.+)$", log, flags=re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_licence_is_the_whole_one_and_named():
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    for part in ("1. Definitions.", "9. Accepting Warranty", "END OF TERMS AND CONDITIONS", "APPENDIX"):
        assert part in text
    assert len(text) == 11_358


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "ray_committer/py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_page_is_in_the_sites_navigation(page: Path):
    assert f": {page.relative_to(ROOT / 'docs')}" in (ROOT / "mkdocs.yml").read_text() or (
        f"- {page.relative_to(ROOT / 'docs')}" in (ROOT / "mkdocs.yml").read_text()
    )


def test_each_difference_from_sparks_own_committer_is_on_the_page():
    page = (ROOT / "docs/spark.md").read_text()
    table = page.split("## Differences from Spark's own committer")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!with|-)(.*?) \|", table, flags=re.MULTILINE)
    named = [next((row for row in rows if row.startswith(one.says)), one) for one in DIFFERENCES]
    assert sorted(map(str, named)) == sorted(rows)
