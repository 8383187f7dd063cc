"""Whoever waits uses one helper: no other module sleeps, or computes a pause of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitCancelledError
from ray_committer.limits import waiting
from ray_committer.limits.waiting import OTHERS, Pauses, Waiting
from tests.clock import Clock

PACKAGE = Path(ray_committer.__file__).parent
HELPER = "limits/waiting.py"
REPEATS = {
    "stores/guarded.py": "requests to a store: the guard",
    "stores/state_names.py": "a listing that showed half of a rename",
    "limits/settle.py": "a change, after a look at what the last request did",
    "work/rename_entry.py": "a rename, judged from both ends",
    "work/complete_entry.py": "a completion, judged from both ends",
    "work/move_whole.py": "a rename of a directory, judged from both ends",
    "stages/freeze_tasks.py": "a rename of the tasks' files, after a look for their mark",
    "stages/save_task_manifest.py": "a manifest, after a look at whether it counts",
    "interop/exports/beaten.py": "an export that another process has overtaken",
    "records/session.py": "a piece of work in a database",
}
"""The modules that do something again after a pause, and what."""


def modules_with(pattern: str) -> set[str]:
    """The modules whose code has a name, dotted or not."""
    return {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and re.fullmatch(pattern, ast.unparse(node))
    }


def test_only_the_helper_sleeps():
    assert modules_with(r"time\.sleep") == {HELPER}


def test_only_the_helper_makes_a_pause_random():
    assert modules_with(r".*\.uniform") == {HELPER}


def test_only_the_modules_named_here_do_something_again_after_a_pause():
    assert modules_with(r"waiting\.[A-Z]+\.after") == set(REPEATS)


def test_a_pause_is_random_and_grows_to_its_limit():
    limits = Pauses(0.1, 10.0)
    for attempt, longest in enumerate((0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0)):
        pauses = {limits.after(attempt) for _ in range(100)}
        assert longest / 2 <= min(pauses) < max(pauses) <= longest
    assert 10.0 < max(limits.after(2000, 20.0) for _ in range(100)) <= 30.0


def test_a_wait_for_others_grows_and_ends_with_its_time():
    clock, pauses = Clock(), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    patience = Waiting(60.0, sleep, clock)
    while not patience.is_over:
        patience.wait()
    assert sum(pauses) == pytest.approx(60.0)
    assert pauses[0] <= OTHERS.first
    assert max(pauses) <= OTHERS.longest
    patience.wait()  # for one of which it is doubtful whether it is at work
    assert clock.now > 60.0


def test_a_sleep_is_ended_by_its_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.001)
    checks = iter([None, None, CommitCancelledError("cancelled")])

    def check() -> None:
        if (error := next(checks)) is not None:
            raise error

    with pytest.raises(CommitCancelledError):
        waiting.sleep(600, check)


def test_who_is_cancelled_does_not_begin_to_sleep():
    def check() -> None:
        raise CommitCancelledError("cancelled")

    with pytest.raises(CommitCancelledError):
        waiting.sleep(600, check)
