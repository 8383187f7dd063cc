"""Real processes at one table, stopped or killed at their requests while others run."""

from __future__ import annotations

import pytest

from tests.schedules import run_schedules
from tests.tiers import RANGE, seeds

STRIDE = 40
"""One of so many parts of all schedules of two processes is in `make test`: about 240 schedules."""

PARTS = [
    pytest.param(part, marks=() if part == RANGE % STRIDE else (pytest.mark.wide,))
    for part in range(STRIDE)
]
RULES_LEFT_OUT = {
    "nobody looks around": ("record_job.look_around = lambda *_: []", "overwrite stopped before"),
    "a loser does not look again": (
        "commit_job._look_again = lambda *_: None",
        "append stopped after",
    ),
    "an undo leaves the sources": ("undo_job._take_back_entry = lambda *_: None", "undo append runs"),
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("part", PARTS)
def test_no_schedule_of_two_processes_ends_in_what_must_not_be(part: int):
    found = run_schedules("--stride", str(STRIDE), "--offset", str(part))
    assert found.wrong == []
    assert found.exit_code == 0
    assert found.ran > 150


@pytest.mark.parametrize("drawn", seeds(narrow=100, wide=2000))
def test_no_turns_of_three_processes_end_in_what_must_not_be(drawn: range):
    found = run_schedules("--random", "--offset", str(drawn.start), "--most", str(len(drawn)))
    assert found.wrong == []
    assert found.ran == len(drawn)


@pytest.mark.parametrize("rule", RULES_LEFT_OUT)
def test_each_rule_left_out_is_found_by_some_schedule(rule: str):
    code, only = RULES_LEFT_OUT[rule]
    found = run_schedules("--only", only, "--stride", "5", "--most", "60", code=code)
    assert found.exit_code == 1
    assert len(found.wrong) > 0


def test_a_rule_left_out_is_found_by_some_turns_of_three_processes():
    found = run_schedules("--random", "--most", "60", code="record_job.look_around = lambda *_: []")
    assert found.exit_code == 1
    assert len(found.wrong) > 0
