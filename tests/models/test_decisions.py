"""All interleavings of a few processes in the model of the states of jobs, with each rule and without
it.
"""

from __future__ import annotations

import pytest

from tests.models.search import check, wander
from tests.models.situations import CROWDS, EVERY, LARGE, NEEDED, NOT_PROMISED, SITUATIONS
from tests.models.world import Rule
from tests.tiers import seeds

STEPS = 20_000

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [*SITUATIONS, *(pytest.param(name, marks=pytest.mark.wide) for name in LARGE)]
)
def test_no_interleaving_ends_in_what_must_not_be(name: str):
    counted = check(EVERY[name])
    print(f"{counted.worlds} situations")
    assert counted.wrong == 0, counted.example
    assert counted.worlds > 100


@pytest.mark.parametrize("drawn", seeds(narrow=1, wide=100))
@pytest.mark.parametrize("name", CROWDS)
def test_no_steps_at_random_of_a_crowd_end_in_what_must_not_be(name: str, drawn: range):
    for seed in drawn:
        counted = wander(CROWDS[name], STEPS, seed)
        print(f"seed {seed}: {STEPS} steps, {counted.worlds} situations")
        assert counted.wrong == 0, counted.example
        assert counted.worlds > STEPS / 2


@pytest.mark.parametrize(
    "rule", [Rule.CONSUME, Rule.LOOK, Rule.DECLARE_FIRST, Rule.LIST_AFTER, Rule.FREEZE]
)
def test_steps_at_random_find_a_rule_that_is_left_out(rule: Rule):
    counted = wander(CROWDS["three jobs, two committers of each"], STEPS // 2, 0, frozenset({rule}))
    assert counted.wrong > 0


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
