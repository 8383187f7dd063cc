"""All interleavings of jobs at a table with a log, with each rule and without it.

An overwrite can wait for ever if appends never stop: it waits while any of them is in flight, and they
do not wait for it, since a claim that waits holds nothing. What holds is that in every world each job
can be brought to its end once the others have ended.
"""

from __future__ import annotations

import pytest

from tests.models.table_search import check_all, sample
from tests.models.table_situations import (
    NARROW,
    NEEDED,
    NOT_PROMISED,
    PACKED,
    PACKED_WIDE,
    READERS,
    TWICE,
    TWICE_WIDE,
    WIDE,
    WRITERS,
)
from tests.models.table_world import Rule
from tests.tiers import seeds

COMMITS = 1_000

WORLDS = {
    "in one directory": 20_000,
    "in the table and in a directory": 15_000,
    "in a directory and below it": 8_000,
    "of readers": 17_000,
    "at the level snapshot": 13_000,
    "at no level": 11_000,
    "one append": 3_500,
    "one overwrite": 7_500,
    "one rewrite": 7_000,
    "an append twice": 49_000,
    "an append undone": 22_000,
    "an overwrite undone": 25_000,
    "one job and another process": 6_500,
    "an append and an overwrite": 32_000,
}
"""At least so many worlds are tried."""

WRONG = {
    Rule.LIST_AFTER_CLAIM: (144, 4_241),
    Rule.CHECK_IN_FLIGHT: (1_826, 5_552),
    Rule.TWO_WAY: (352, 2_570),
    Rule.HOLD_UNTIL_DONE: (24, 4_603),
    Rule.ABORT_AFTER_STATE: (817, 2_661),
    Rule.ABORT_BEFORE_GONE: (8, 175),
    Rule.SEAL_APPENDS: (57, 328),
    Rule.COMMIT_BEFORE_REMOVAL: (101, 1_017),
    Rule.UNDONE_AT_BASE: (153, 4_253),
    Rule.COUNT_ABORTED: (140, 10_687),
    Rule.FROM_SNAPSHOT: (160, 2_148),
    Rule.PREFIXES: (808, 2_622),
    Rule.OWN_CLAIM: (62, 833),
    Rule.READ_REWRITES: (273, 2_438),
    Rule.REWRITE_ALWAYS: (864, 4_272),
    Rule.JUDGE_DRAFTS: (1_120, 16_611),
    Rule.NOT_TWICE: (1_204, 2_610),
    Rule.NOT_AFTER_ABORT: (6, 178),
    Rule.KNOW_SINCE: (173, 474),
}
"""So many worlds end wrongly without a rule, of so many."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*NARROW, *TWICE, *PACKED])
def test_no_interleaving_of_jobs_at_a_table_ends_in_what_must_not_be(name: str):
    counted = check_all((NARROW | TWICE | PACKED)[name])
    print(f"{counted.worlds} worlds")
    assert counted.wrong == 0, counted.example
    assert counted.worlds >= WORLDS[name]


@pytest.mark.wide
@pytest.mark.parametrize("name", [*WIDE, *TWICE_WIDE, *PACKED_WIDE])
def test_no_interleaving_of_any_two_jobs_at_a_table_ends_in_what_must_not_be(name: str):
    situations = (WIDE | TWICE_WIDE | PACKED_WIDE)[name]
    counted = check_all(situations)
    print(f"{len(situations)} pairs, {counted.worlds} worlds")
    assert counted.wrong == 0, counted.example
    assert counted.worlds >= 900 * len(situations)


@pytest.mark.parametrize("drawn", seeds(narrow=1, wide=20))
def test_no_steps_at_random_of_three_jobs_at_a_table_end_in_what_must_not_be(drawn: range):
    for seed in drawn:
        counted = sample([*WRITERS, *READERS], COMMITS, seed)
        print(f"seed {seed}: {counted.committed} commits, {counted.worlds} worlds")
        assert counted.wrong == 0, counted.example
        assert counted.worlds > 10 * COMMITS


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_of_the_log_is_needed(rule: Rule):
    counted = check_all(NEEDED[rule], frozenset({rule}))
    print(f"{counted.wrong} of {counted.worlds} end wrongly without: {rule}")
    assert (counted.wrong, counted.worlds) == WRONG[rule]
    assert check_all(NEEDED[rule]).wrong == 0


@pytest.mark.parametrize("name", NOT_PROMISED)
def test_no_rule_of_the_log_protects_from_what_is_not_promised(name: str):
    counted = check_all(NOT_PROMISED[name])
    print(f"{counted.wrong} of {counted.worlds} end wrongly")
    assert counted.wrong > 0


def test_each_rule_of_the_log_has_a_situation_that_needs_it():
    assert set(NEEDED) == set(Rule)
