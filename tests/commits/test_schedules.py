"""Real processes at one table, stopped or killed at their requests while others run."""

from __future__ import annotations

import itertools

import pytest

from tests.machines.operations import pairs
from tests.machines.table_operations import table_pairs
from tests.schedules import run_schedules
from tests.tiers import parts, seeds

STRIDE = 1381
"""One of so many parts of all schedules of two processes is in `make test`: about 37 schedules. It
divides neither the number of pairs nor the six ways in which each is stopped."""

PARTS = parts(STRIDE, wide=128)
MEET = (
    *("commit append", "commit overwrite", "commit partition", "commit empty", "commit nested"),
    *("abort", "undo", "vacuum", "late task"),
)
RUNS = ("run of append again", "run of append 1")
"""Of applications with the id of another job: one that is set up again, and a newer attempt."""
RUNS_MEET = ("commit append", "commit overwrite", "abort", "undo", "vacuum", "late task")
BLIND_CLEANUP = """
def take_away(store, job, seen):
    gone = job.gone("0")
    store.move_directory(job.directory, gone.directory)
    return gone
cleanup_job.take_away = take_away
"""
RULES_LEFT_OUT = {
    "nobody looks around": ("record_job.look_around = lambda *_: []", "overwrite stopped before"),
    "a loser does not look again": (
        "commit_job._look_again = lambda *_: None",
        "append stopped after",
    ),
    "an undo leaves the sources": ("undo_job._take_back_entry = lambda *_: None", "undo append runs"),
    "an undo that died is not finished": (
        "undo_job._take_from_destination = lambda *_: None",
        "undo half stopped before",
    ),
    "a newer attempt leaves the older ones alone": (
        "record_job.abort_older_attempts = lambda *_: None",
        "run of append 1 stopped before",
    ),
    "a clean-up does not look at what it takes away": (BLIND_CLEANUP, "tasks of append again runs"),
}
SOONEST = ("a loser does not look again", "an undo leaves the sources")
"""Those whose wrong end is among the first schedules."""

PARTS_OF_TABLES, TURNS_AT_TABLES = 80, 12
AT_TABLES = parts(PARTS_OF_TABLES, wide=16)
ONLY_CLAIMS = "record_job.look_around = lambda *_: []"
LISTED_BEFORE_THE_CLAIM = """
lazy, check = record_job.partial, record_job._check
def at_once(work, *given):
    if work is not check:
        return lazy(work, *given)
    found = work(*given)
    return lambda: found
record_job.partial = at_once
"""
CLAIMS_LEFT_OUT = {
    "no claim waits": ("claim.judge = lambda *_: None", "again"),
    "a claim ends at its commit": ("table_state._after = lambda *_: None", "again"),
    "old files are listed before the claim": (LISTED_BEFORE_THE_CLAIM, "append"),
}
"""Rules of claims, and the job that runs beside an overwrite so that it is seen."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("one", [*MEET, *RUNS])
def test_each_kind_of_operation_is_stopped_while_each_other_runs(one: str):
    met = {
        (one_kind, other_kind)
        for first, second in pairs()
        for one_kind, other_kind in itertools.product((*MEET, *RUNS), repeat=2)
        if first.name.startswith(one_kind) and second.name.startswith(other_kind)
    }
    others = RUNS_MEET if one in RUNS else MEET
    may_meet = {(one, other) for other in others if (one, other) != ("late task", "late task")}
    assert may_meet <= met
    assert {(other, one) for one, other in may_meet} <= met


@pytest.mark.parametrize("part", PARTS)
def test_no_schedule_of_two_processes_ends_in_what_must_not_be(part: int):
    found = run_schedules("--stride", str(STRIDE), "--offset", str(part))
    assert found.wrong == []
    assert found.exit_code == 0
    assert found.ran > 30


@pytest.mark.parametrize("drawn", seeds(narrow=25, wide=2000))
def test_no_turns_of_three_processes_end_in_what_must_not_be(drawn: range):
    found = run_schedules("--random", "--offset", str(drawn.start), "--most", str(len(drawn)))
    assert found.wrong == []
    assert found.ran == len(drawn)


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=() if rule in SOONEST else pytest.mark.wide) for rule in RULES_LEFT_OUT],
)
def test_each_rule_left_out_is_found_by_some_schedule(rule: str):
    code, only = RULES_LEFT_OUT[rule]
    stride = "1" if code == BLIND_CLEANUP else "5"  # only at two of its requests
    found = run_schedules("--only", only, "--stride", stride, "--until-wrong", code=code)
    assert found.exit_code == 1
    assert len(found.wrong) == 1


def test_a_rule_left_out_is_found_by_some_turns_of_three_processes():
    blind = "record_job.look_around = lambda *_: []"
    found = run_schedules("--random", "--offset", "60", "--until-wrong", code=blind)
    assert found.exit_code == 1
    assert len(found.wrong) == 1


@pytest.mark.parametrize("part", AT_TABLES)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(part: int):
    pairs = run_schedules("--log", "--part", f"{part + 1}/{PARTS_OF_TABLES}", "--stride", "131")
    assert pairs.wrong == []
    assert pairs.ran > 0
    first = str(part * TURNS_AT_TABLES)
    turns = run_schedules("--log", "--random", "--offset", first, "--most", str(TURNS_AT_TABLES))
    assert turns.wrong == []
    assert turns.ran == TURNS_AT_TABLES


@pytest.mark.wide
def test_at_a_table_with_a_log_claims_alone_keep_jobs_apart():
    found = run_schedules("--log", "--random", "--most", "60", code=ONLY_CLAIMS)
    assert found.wrong == []
    assert found.ran == 60


@pytest.mark.parametrize("rule", CLAIMS_LEFT_OUT)
def test_each_rule_of_claims_left_out_is_found_by_some_schedule(rule: str):
    code, other = CLAIMS_LEFT_OUT[rule]
    names = [(first.name, second.name) for first, second in table_pairs()]
    part = f"{names.index(('commit overwrite', f'commit {other}')) + 1}/{len(names)}"
    found = run_schedules(
        *("--log", "--part", part, "--stride", "7", "--until-wrong"), code=f"{ONLY_CLAIMS}\n{code}"
    )
    assert found.exit_code == 1
    assert len(found.wrong) == 1
