"""Each rule has a test, and each mutant can be made; the `wide` tests see each one killed."""

from __future__ import annotations

import pytest

from tests.mutants.runner import ROOT, Row, mutants, rows, run_tests
from tests.mutants.swap import places

RULES = [
    *(f"D{number}" for number in range(1, 11)),
    *(f"R{number}" for number in range(1, 23)),
    *(f"L{number}" for number in range(1, 7)),
]


def test_each_rule_has_a_test():
    assert list(dict.fromkeys(row.rule for row in rows())) == RULES


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.test.rpartition("::")[2])
def test_the_test_is_there(row: Row):
    file, _, name = row.test.partition("::")
    assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text()


def test_each_mutant_is_in_the_table_once():
    assert sorted(row.mutant for row in rows() if row.mutant) == sorted(mutants())


@pytest.mark.parametrize("name", mutants())
def test_the_mutant_can_be_made(name: str):
    mutant = mutants()[name]
    assert mutant.__doc__
    assert all(places(original, broken) for original, broken in mutant())


@pytest.mark.wide
@pytest.mark.parametrize("row", [row for row in rows() if row.mutant], ids=lambda row: row.mutant)
def test_the_mutant_is_killed(row: Row):
    unchanged, outcome = run_tests([row.test]), run_tests([row.test], row.mutant)
    assert unchanged.exit_code == pytest.ExitCode.OK, unchanged.output
    assert outcome.is_kill, f"{row.mutant} lives:\n{outcome.output}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "is_kill"),
    [
        ("def test_it(): assert False", True),
        ("def test_it(): pass", False),
        ("import nothing_of_this_name", False),
        ("def test_it(fixture_that_is_not_there): pass", False),
        ("", False),
    ],
    ids=["fails", "passes", "cannot be imported", "cannot be set up", "is not there"],
)
def test_only_a_test_that_fails_kills(source: str, is_kill: bool, tmp_path):
    (tmp_path / "test_it.py").write_text(source)
    assert run_tests([str(tmp_path / "test_it.py")]).is_kill == is_kill
