"""Each mutant still applies, and the tests that it names kill it.

The second takes as long as those tests, so it is in `make test-all`; ``python -m tests.mutants`` prints
which test killed which mutant.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.runner import (
    ROOT,
    Mutant,
    collect_tests,
    environment,
    load_mutants,
    run_tests,
    run_unchanged,
    try_mutant,
)

MUTANTS = load_mutants()


def files_of(mutant: Mutant) -> str:
    return " ".join(test.partition("::")[0] for test in mutant.tests)


every_mutant_here = pytest.mark.parametrize(
    "mutant",
    [
        # Mutants of the same tests are tried by one process, which runs them without a mistake once.
        pytest.param(mutant, id=mutant.name, marks=pytest.mark.xdist_group(files_of(mutant)))
        for mutant in MUTANTS
        if mutant.environment == environment()
    ],
)


def test_every_part_has_its_mutants():
    assert len(MUTANTS) >= 44
    assert [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1] == []


def test_each_mutant_still_applies():
    assert [mutant.name for mutant in MUTANTS if not mutant.applies] == []


def test_the_tests_of_each_mutant_are_there():
    for mutant in MUTANTS:
        assert 1 <= len(mutant.tests) <= 3, mutant.name
        missing = [one for one in mutant.tests if not (ROOT / one.partition("::")[0]).exists()]
        assert missing == [], mutant.name


@pytest.mark.wide
@pytest.mark.slow
def test_no_test_of_a_mutant_is_left_out_of_make_test():
    named = {test for mutant in MUTANTS if mutant.environment == environment() for test in mutant.tests}
    modules = {test.partition("::")[0] for test in named}  # which combinations run depends on all tests
    found = collect_tests(ROOT, tuple(sorted(modules)))
    assert [test for test in sorted(named) if not any(one.startswith(test) for one in found)] == []


@pytest.mark.wide
@pytest.mark.timeout(1500)
@every_mutant_here
def test_the_mutant_is_killed(mutant: Mutant):
    unchanged = run_unchanged(mutant.tests)
    assert unchanged.exit_code == pytest.ExitCode.OK, unchanged.output
    outcome = try_mutant(mutant)
    assert outcome.is_kill, f"{mutant.name} lives: {mutant.promise}\n{outcome.output}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "exit_code", "failed"),
    [
        ("def test_it(): assert False", 1, ("test_it.py::test_it",)),
        ("def test_it(): pass", 0, ()),
        ("import nothing_of_this_name", 2, ()),
        ("def test_it(fixture_that_is_not_there): pass", 1, ()),
        ("", 5, ()),
    ],
    ids=["fails", "passes", "cannot be imported", "cannot be set up", "is not there"],
)
def test_only_a_test_that_fails_kills(
    tmp_path: Path, source: str, exit_code: int, failed: tuple[str, ...]
):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    (tmp_path / "test_it.py").write_text(source)
    outcome = run_tests(tmp_path, ("test_it.py",))
    assert (outcome.exit_code, outcome.failed) == (exit_code, failed)
    assert outcome.is_kill == bool(failed)
