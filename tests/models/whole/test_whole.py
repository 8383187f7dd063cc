"""All interleavings of a few processes in the model of directories that are moved whole, with each rule
and without it. The counts without it are those of the table in ``tests/README.md``.
"""

from __future__ import annotations

import pytest

from tests.models.whole.search import check
from tests.models.whole.situations import EVERY, HARMLESS, LARGE, NEEDED, SITUATIONS
from tests.models.whole.world import Rule
from tests.mutants.runner import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [*SITUATIONS, *(pytest.param(name, marks=pytest.mark.wide) for name in LARGE)]
)
def test_no_interleaving_loses_or_adds_files_or_shows_a_part_or_ends_stuck(name: str):
    counted = check(EVERY[name])
    print(f"{counted.worlds} worlds")
    assert counted.wrong == 0, counted.example
    assert counted.worlds > 50


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_about_directories_is_needed(rule: Rule):
    counted = check(EVERY[NEEDED[rule]], frozenset({rule}))
    assert counted.wrong > 0
    row = f"| {rule} | {NEEDED[rule]} | {counted.worlds:,} | {counted.wrong:,} |\n"
    assert row in (ROOT / "tests/README.md").read_text(), f"the row is now {row}"


@pytest.mark.parametrize("rule", HARMLESS)
def test_some_rules_are_not_needed_in_the_model(rule: Rule):
    assert check(EVERY[HARMLESS[rule]], frozenset({rule})).wrong == 0


def test_each_rule_about_directories_is_tried():
    assert {*NEEDED, *HARMLESS} == set(Rule)
