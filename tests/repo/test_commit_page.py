"""The commit can be read in one page, and what that page relies on is done in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import ray_committer
from ray_committer.protocol.state import Phase

PACKAGE = Path(ray_committer.__file__).parent
PAGE = "stages/commit_job.py"
MOST_LINES = 60
STEPS = ("stages/record_job.py", "stages/publish_job.py", "stages/conclude_job.py")

CATCHES = {
    "job_files/follow_job.py": "the loop of each operation on a job: it goes on from the state there is",
    "job_files/job_state.py": "a change that is not needed any more",
    "jobs/plan.py": "a plan is made again",
    "stages/hold_tasks.py": "what was frozen of a later job is put back, before the loop sees it",
    "stages/turns/find_table.py": "a set-up is refused",
    "stages/undo_job.py": "the place of an undo that did not begin is removed, before the loop sees it",
}
"""The modules that catch a state that another process has changed, and what they do about it."""

ACTIONS = {
    "work/publish_entry.py": "the action of a worker",
    "work/entries.py": "the check before the record",
    "stages/take_back.py": "the undo of an action",
    "stages/checks/uploads.py": "the look for uploads that are gone",
    "jobs/survey_jobs.py": "how much of a job is left",
    "protocol/pack.py": "how an entry is packed",
    "testing/faults.py": "how a call is shown",
    "stages/bind_versions.py": "which entries have a version",
}
"""The modules that ask which type of action an entry is, and for what."""


def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text())


def modules_with(wanted: type[ast.AST], name: str) -> set[str]:
    """The modules that have `name` in a node of this type."""
    return {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, wanted) and name in _names(node)
    }


def _names(node: ast.AST) -> set[str]:
    """The names in what a handler catches, a call is given, or a case matches."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.ExceptHandler):
        parts = [node.type]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "isinstance"):
        parts = [*node.args]
    elif isinstance(node, ast.match_case):
        parts = [node.pattern]
    found = [one for part in parts if part is not None for one in ast.walk(part)]
    return {one.id for one in found if isinstance(one, ast.Name)}


def test_a_commit_from_its_call_to_its_clean_up_is_read_in_less_than_a_page():
    functions = {one.name: one for one in tree_of(PAGE).body if isinstance(one, ast.FunctionDef)}
    call, commit, step = functions["commit_job"], functions["_commit"], functions["_take_step"]
    assert call.lineno < commit.lineno < step.lineno
    assert all(not call.lineno < one.lineno < step.lineno for one in functions.values() if one != commit)
    first = call.body[1].lineno  # after the docstring
    assert step.end_lineno is not None
    assert step.end_lineno - first + 1 < MOST_LINES


def test_each_state_of_a_job_has_its_steps_in_the_page():
    (match,) = (one for one in ast.walk(tree_of(PAGE)) if isinstance(one, ast.Match))
    named = {one.attr for case in match.cases for one in ast.walk(case.pattern) if hasattr(one, "attr")}
    assert named == set(Phase.__members__)


def test_only_the_modules_named_here_catch_a_state_that_has_changed():
    found = modules_with(ast.ExceptHandler, "StateChangedError")
    assert found | modules_with(ast.Call, "StateChangedError") == set(CATCHES)


def test_neither_the_page_nor_its_steps_ask_whether_a_table_has_a_log():
    for module in (PAGE, *STEPS):
        asked = {ast.unparse(one) for one in ast.walk(tree_of(module)) if isinstance(one, ast.Attribute)}
        assert not {one for one in asked if one.endswith(("record.table", "state.table"))}, module


def test_only_the_modules_named_here_ask_of_which_type_an_action_is():
    found = modules_with(ast.match_case, "CompleteUpload") | modules_with(ast.Call, "CompleteUpload")
    assert found == set(ACTIONS)
