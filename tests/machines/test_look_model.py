"""Why one page of a partition can take the place of a question for other jobs there (D3).

A job that replaces a partition declares itself first, then looks at the jobs of its table, then at one
page of each directory above the partition, then lists the partition. A rival that is set up there

- and has declared itself before we have is there until its files are in place. So a later page shows
  its ``_temporary``, and we look at it, or all its files, and we replace them.
- and declares itself after us looks at the jobs above it after that, and sees our declaration.

Both hold only if a page is one moment. A listing of several requests can be older than the files of the
rival in one part, and newer than its end in another: so there the question comes first.
"""

from __future__ import annotations

import pytest

from tests.machines.look_model import IN_PARTS, RIGHT, At, wrong_ends

BOTH, REPLACES = (False, True), (True,)
"""Whether the rival appends or overwrites."""
UNASKED = tuple(step for step in IN_PARTS if step != "ask")
LATE_LOOK = ("declare", "parent", "page", "look", *RIGHT[4:])
UNDECLARED = ("look", "parent", "page", "declare", *RIGHT[4:])
CHILDREN_FIRST = ("declare", "look", "page", "parent", *RIGHT[4:])


@pytest.mark.parametrize("replaces", BOTH)
@pytest.mark.parametrize("at", At)
@pytest.mark.parametrize("steps", [RIGHT, (*IN_PARTS, "end")], ids=["one page", "parts"])
def test_in_each_order_the_jobs_end_as_one_after_the_other(
    steps: tuple[str, ...], at: At, replaces: bool
):
    assert wrong_ends(steps, at, replaces=replaces) == []


@pytest.mark.parametrize(
    ("steps", "at", "looks_again", "of"),
    [
        ((*UNASKED, "end"), At.PARTITION, True, BOTH),
        (LATE_LOOK, At.TABLE, True, BOTH),
        (UNDECLARED, At.TABLE, True, BOTH),
        (UNDECLARED, At.PARTITION, True, REPLACES),
        (CHILDREN_FIRST, At.MIDDLE, True, BOTH),
        (RIGHT, At.PARTITION, False, BOTH),
        (RIGHT, At.MIDDLE, False, BOTH),
    ],
    ids=[
        "parts are not asked for",
        "the look comes after the list",
        "declared after the look",
        "declared after the page",
        "the parent comes last",
        "who is seen in the partition is not looked at",
        "who is seen above the partition is not looked at",
    ],
)
def test_without_any_of_its_rules_one_end_is_wrong(
    steps: tuple[str, ...], at: At, looks_again: bool, of: tuple[bool, ...]
):
    for replaces in of:
        assert wrong_ends(steps, at, replaces=replaces, looks_again=looks_again)
