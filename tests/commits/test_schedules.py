"""Real processes at one table, stopped or killed at their requests while others run."""

from __future__ import annotations

import itertools

import pytest

from tests.machines.operations import pairs
from tests.machines.table_operations import table_pairs
from tests.machines.task_operations import task_pairs
from tests.schedules import run_schedules
from tests.tiers import parts, seeds

STRIDE = 1381
"""One of so many parts of all schedules of two processes is in `make test`: about 45 schedules. It
divides neither the number of pairs nor the six ways in which each is stopped."""

PARTS = parts(STRIDE, wide=128)
LINKS = ("--links",)
"""Where a rename is a link and an unlink, and a process is also stopped between the two."""
MEET = (
    *("commit append", "commit overwrite", "commit partition", "commit empty", "commit nested"),
    *("abort", "undo", "vacuum", "late task"),
)
RUNS = ("run of append again", "run of append 1")
"""Of applications with the id of another job: one that is set up again, and a newer attempt."""
RUNS_MEET = ("commit append", "commit overwrite", "abort", "undo", "vacuum", "late task")
RULES_LEFT_OUT = {
    "a_job_does_not_look_at_others": "overwrite stopped before",
    "a_failure_is_reported_without_a_look_at_the_job": "append zombie before",
    "an_undo_leaves_what_was_moved": "undo half stopped before",
    "an_older_attempt_is_left_to_itself": "run of append 1 stopped before",
    "what_was_taken_away_is_deleted_whosever_it_is": "tasks of append again runs",
}
"""Mutants, and the schedules that must find each."""
AT_EACH_REQUEST = "what_was_taken_away_is_deleted_whosever_it_is"
"""Only schedules at two of its requests find it."""
SOONEST = ("a_failure_is_reported_without_a_look_at_the_job", "an_undo_leaves_what_was_moved")
"""Those whose wrong end is among the first schedules."""

TASKS_LEFT_OUT = {
    "the_attempts_that_count_are_not_compared": ("driver of told with names stopped", "retry of told"),
    "an_aborted_attempt_deletes_whole_directories": ("commit told stopped", "failed attempt of told"),
    "packs_are_written_after_the_record": ("driver of told with texts killed before", "commit told"),
}
"""Mutants about tasks and their results, and what finds each: an operation stopped beside another."""

PARTS_OF_TABLES, TURNS_AT_TABLES = 80, 12
AT_TABLES = parts(PARTS_OF_TABLES, wide=16)
ONLY_CLAIMS = "a_job_does_not_look_at_others"
CLAIMS_LEFT_OUT = {
    "no_claim_waits": ("overwrite", "again"),
    "a_claim_ends_at_its_commit": ("overwrite", "again"),
    "old_files_are_listed_before_the_claim": ("overwrite", "append"),
    "claims_of_one_run_id_are_in_flight_together": ("twice", "once"),
    "work_under_a_run_id_is_committed_again": ("twice", "once"),
}
"""Mutants of claims, and two jobs that run beside each other so that each is found."""

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


@pytest.mark.parametrize("one", ["driver of told with texts", "driver of told with names"])
def test_each_driver_is_stopped_while_attempts_of_its_tasks_run_and_they_while_it_commits(one: str):
    met = {(first.name, second.name) for first, second in task_pairs()}
    for other in ("retry", "failed attempt", "late task"):
        assert {(one, f"{other} of told"), (f"{other} of told", one)} <= met


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", [(), LINKS], ids=["flags", "links"])
def test_no_schedule_of_two_processes_ends_in_what_must_not_be(how: tuple[str, ...], part: int):
    found = run_schedules(*how, "--stride", str(STRIDE), "--offset", str(part))
    assert found.wrong == []
    assert found.exit_code == 0
    assert found.ran > 30


@pytest.mark.parametrize("drawn", seeds(narrow=25, wide=2000))
@pytest.mark.parametrize("how", [(), LINKS], ids=["flags", "links"])
def test_no_turns_of_three_processes_end_in_what_must_not_be(how: tuple[str, ...], drawn: range):
    found = run_schedules(*how, "--random", "--offset", str(drawn.start), "--most", str(len(drawn)))
    assert found.wrong == []
    assert found.ran == len(drawn)


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=() if rule in SOONEST else pytest.mark.wide) for rule in RULES_LEFT_OUT],
)
def test_each_rule_left_out_is_found_by_some_schedule(rule: str):
    where = ("--only", RULES_LEFT_OUT[rule], "--stride", "1" if rule == AT_EACH_REQUEST else "5")
    found = run_schedules(*where, "--until-wrong", without=[rule])
    assert found.exit_code == 1
    assert len(found.wrong) == 1


@pytest.mark.parametrize("rule", TASKS_LEFT_OUT)
def test_each_rule_of_tasks_left_out_is_found_by_some_schedule(rule: str):
    stopped, other = TASKS_LEFT_OUT[rule]
    every = [*pairs(), *task_pairs()]
    met = [stopped.startswith(first.name) and second.name == other for first, second in every]
    where = ("--part", f"{met.index(True) + 1}/{len(met)}", "--only", stopped, "--until-wrong")
    found = run_schedules(*where, without=[rule])
    assert found.exit_code == 1
    assert len(found.wrong) == 1


def test_a_rule_left_out_is_found_by_some_turns_of_three_processes():
    found = run_schedules("--random", "--offset", "60", "--until-wrong", without=[ONLY_CLAIMS])
    assert found.exit_code == 1
    assert len(found.wrong) == 1


@pytest.mark.parametrize("part", AT_TABLES)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(part: int):
    how = LINKS if part % 2 else ()
    where = ("--part", f"{part + 1}/{PARTS_OF_TABLES}", "--stride", "131")
    pairs = run_schedules(*how, "--log", *where)
    assert pairs.wrong == []
    assert pairs.ran > 0
    first = str(part * TURNS_AT_TABLES)
    turns = run_schedules(*how, "--log", "--random", "--offset", first, "--most", str(TURNS_AT_TABLES))
    assert turns.wrong == []
    assert turns.ran == TURNS_AT_TABLES


@pytest.mark.wide
def test_at_a_table_with_a_log_claims_alone_keep_jobs_apart():
    found = run_schedules("--log", "--random", "--most", "60", without=[ONLY_CLAIMS])
    assert found.wrong == []
    assert found.ran == 60


@pytest.mark.parametrize("rule", CLAIMS_LEFT_OUT)
def test_each_rule_of_claims_left_out_is_found_by_some_schedule(rule: str):
    one, other = CLAIMS_LEFT_OUT[rule]
    names = [(first.name, second.name) for first, second in table_pairs()]
    part = f"{names.index((f'commit {one}', f'commit {other}')) + 1}/{len(names)}"
    where = ("--log", "--part", part, "--stride", "5")
    found = run_schedules(*where, "--until-wrong", without=[ONLY_CLAIMS, rule])
    assert found.exit_code == 1
    assert len(found.wrong) == 1
