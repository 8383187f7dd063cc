"""All interleavings of a few processes in the model of the files of a job, with each rule and without
it. The counts without it are those of the table in ``tests/README.md``.
"""

from __future__ import annotations

import pytest

from tests.models.files.search import check
from tests.models.files.situations import EVERY, LARGE, NEEDED, SITUATIONS
from tests.models.files.world import Rule
from tests.mutants.runner import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [*SITUATIONS, *(pytest.param(name, marks=pytest.mark.wide) for name in LARGE)]
)
def test_no_interleaving_loses_doubles_or_adds_rows_or_ends_stuck(name: str):
    counted = check(EVERY[name])
    print(f"{counted.worlds} situations")
    assert counted.wrong == 0, counted.example
    assert counted.worlds > 50


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_about_files_is_needed(rule: Rule):
    counted = check(EVERY[NEEDED[rule]], frozenset({rule}))
    assert counted.wrong > 0
    row = f"| {rule} | {NEEDED[rule]} | {counted.worlds:,} | {counted.wrong:,} |\n"
    assert row in (ROOT / "tests/README.md").read_text(), f"the row is now {row}"


def test_each_rule_about_files_has_a_situation_that_needs_it():
    assert set(NEEDED) == set(Rule)
