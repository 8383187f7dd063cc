"""All interleavings of a few processes in the model of the states of jobs, with each rule and without
it.
"""

from __future__ import annotations

import pytest

from tests.models.search import check
from tests.models.situations import EVERY, LARGE, NEEDED, NOT_PROMISED, SITUATIONS
from tests.models.world import Rule

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [*SITUATIONS, *(pytest.param(name, marks=pytest.mark.wide) for name in LARGE)]
)
def test_no_interleaving_ends_in_what_must_not_be(name: str):
    counted = check(EVERY[name])
    print(f"{counted.worlds} situations")
    assert counted.wrong == 0, counted.example
    assert counted.worlds > 100


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule: Rule):
    counted = check(EVERY[NEEDED[rule]], frozenset({rule}))
    print(f"{counted.wrong} of {counted.worlds} end wrongly without: {rule}")
    assert counted.wrong > 0


@pytest.mark.parametrize("name", NOT_PROMISED)
def test_no_rule_protects_from_what_is_not_promised(name: str):
    counted = check(EVERY[name])
    print(f"{counted.wrong} of {counted.worlds} end wrongly")
    assert counted.wrong > 0


def test_each_rule_has_a_situation_that_needs_it():
    assert set(NEEDED) == set(Rule)
