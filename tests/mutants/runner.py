"""Run tests with the mistake that they must notice, and without it.

A mutant is a function of one of the `MODULES` that yields replacements, which `swap` makes. The table in
``tests/README.md`` gives its rule and its test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isfunction
from pathlib import Path

import pytest

from tests.mutants import contents, decisions, endings, freezing, moves, replacing, tables, whole
from tests.mutants.swap import Mutant

ROOT = Path(__file__).parents[2]
MODULES = (decisions, contents, moves, replacing, endings, tables, freezing, whole)
VARIABLE = "RAY_COMMITTER_TEST_MUTANT"

_ROW = re.compile(r"^\| ([DLR]\d+) \| (.+?) \| `(\S+)` \| (?:`(\w+)`)? *\|$", re.MULTILINE)
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """What a rule promises, the test that fails without it, and the mutant that shows this, if any."""

    rule: str
    promise: str
    test: str
    mutant: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of tests: the exit code of pytest, the tests that failed, the seconds, what was printed."""

    exit_code: int
    failed: tuple[str, ...]
    seconds: float
    output: str

    @property
    def is_kill(self) -> bool:
        """Whether a test ran and failed: one that cannot be collected or set up shows nothing."""
        return self.exit_code == pytest.ExitCode.TESTS_FAILED and bool(self.failed)


def rows() -> list[Row]:
    """The table of ``tests/README.md``."""
    return [Row(*found) for found in _ROW.findall((ROOT / "tests/README.md").read_text())]


def mutants() -> dict[str, Mutant]:
    """All mutants by name."""
    found = [one for module in MODULES for one in vars(module).values() if isfunction(one)]
    return {one.__name__: one for one in found if one.__module__ in {each.__name__ for each in MODULES}}


def run_tests(tests: Sequence[str], mutant: str = "") -> Outcome:
    """Run tests of this tree in a process of their own, with the mistake of a mutant if one is named."""
    plugin = ("-p", "tests.mutants.plugin") if mutant else ()
    options = ("-q", "-p", "no:cacheprovider", "-m", "not wide", "--timeout", "120", *plugin)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(ROOT / "tests" / test) for test in tests)],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT), VARIABLE: mutant},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    failed = tuple(_FAILED.findall(ended.stdout))
    return Outcome(ended.returncode, failed, time.monotonic() - started, ended.stdout)
