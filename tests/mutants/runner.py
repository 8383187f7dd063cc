"""Make one small mistake in a copy of this source tree, and see whether the tests that must fail do.

A mutant is a mistake that a developer could make: a check that is gone, two steps in the wrong order, a
size taken for a proof. The tests that kill it show that they protect what it breaks. A list of them lets
the suite be made shorter without losing a promise.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import hatch_build

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 600.0
SPARK4 = "spark4"

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".cache", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info"
)
_OPTIONS = ("-p", "no:cacheprovider", "-m", "not wide")
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file` the text `before`, which is there once, becomes `after`; one of `tests` must fail then.

    promise: what a user loses by it. tests: arguments of pytest, files or node ids.
    environment: `SPARK4` if the tests need PySpark 4, else empty.
    """

    name: str
    promise: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    environment: str = ""

    @property
    def applies(self) -> bool:
        """Whether its place is found, and the mistake makes a difference."""
        return (ROOT / self.file).read_text().count(self.before) == 1 and self.before != self.after

    def mutated(self) -> str:
        """The text of the file with the mistake; ``ValueError`` if the place of it is not found."""
        if not self.applies:
            raise ValueError(f"{self.name}: {self.file} has no such place, or several")
        return (ROOT / self.file).read_text().replace(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of tests: the exit code of pytest, the tests that failed, the seconds, what was printed."""

    exit_code: int
    failed: tuple[str, ...]
    seconds: float
    output: str

    @property
    def is_kill(self) -> bool:
        """Whether a test ran and failed: one that cannot be collected or set up tells nothing."""
        return self.exit_code == pytest.ExitCode.TESTS_FAILED and bool(self.failed)


def load_mutants() -> list[Mutant]:
    """The mutants of ``mutants.toml``, in its order."""
    tables = tomllib.loads((Path(__file__).with_name("mutants.toml")).read_text())["mutant"]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


def environment() -> str:
    """Which mutants the tests of this interpreter can kill."""
    try:
        return SPARK4 if version("pyspark").startswith("4.") else ""
    except PackageNotFoundError:
        return ""


def try_mutant(mutant: Mutant) -> Outcome:
    """Run the mutant's tests with the mistake in place."""
    with _copy(mutant) as tree:
        return run_tests(tree, mutant.tests)


@cache
def run_unchanged(tests: tuple[str, ...]) -> Outcome:
    """Run tests in a copy without any mistake, once a process: if they fail, a kill means nothing."""
    with _copy() as tree:
        return run_tests(tree, tests)


def run_tests(tree: Path, tests: tuple[str, ...], *, limit_seconds: float = LIMIT_SECONDS) -> Outcome:
    """Run tests in `tree` by this interpreter, up to the first that fails.

    ``subprocess.TimeoutExpired`` after `limit_seconds`: each test has a limit of its own before that.
    """
    options = ["-x", "-q", *_OPTIONS]
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=_variables(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    seconds = time.monotonic() - started
    return Outcome(process.returncode, tuple(_FAILED.findall(output)), seconds, output)


def collect_tests(tree: Path, tests: tuple[str, ...]) -> list[str]:
    """The node ids of those tests that `run_tests` would run, without running them."""
    options = ["--collect-only", "-q", *_OPTIONS]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=_variables(tree),
        stdout=subprocess.PIPE,
        text=True,
    )
    return process.stdout.splitlines()


@contextmanager
def _copy(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of the source tree, with a mistake if one is given, and a jar that is built from it.

    It uses the servers that the tests of this tree have fetched.
    """
    with TemporaryDirectory(prefix="mutant-") as directory:
        tree = Path(directory, "tree")
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        if (ROOT / ".cache").is_dir():
            (tree / ".cache").symlink_to(ROOT / ".cache")
        if mutant is not None:
            (tree / mutant.file).write_text(mutant.mutated())
        hatch_build.ensure_jar(tree)
        yield tree


def _variables(tree: Path) -> dict[str, str]:
    """The environment, in which each Python that a test starts imports the copy too."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": str(tree)}
