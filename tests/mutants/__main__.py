"""``python -m tests.mutants [NAME ...]``: which test kills which mutant; exit with 1 if one lives."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.runner import Row, mutants, rows, run_tests


def main(names: list[str]) -> int:
    """Try the mutants of these names, or all."""
    if unknown := set(names) - set(mutants()):
        sys.exit(f"no mutant is called {', '.join(sorted(unknown))}")
    tried = [row for row in rows() if row.mutant and row.mutant in (names or mutants())]
    unchanged = run_tests([row.test for row in tried])
    if unchanged.exit_code != pytest.ExitCode.OK:
        sys.exit(f"{unchanged.output}\nthese tests must pass without a mutant")
    verdicts = [_try(row) for row in tried]
    print(f"{verdicts.count(True)} of {len(verdicts)} mutants are killed")
    return int(not all(verdicts))


def _try(row: Row) -> bool:
    outcome = run_tests([row.test], row.mutant)
    verdict = outcome.failed[0] if outcome.is_kill else "IT LIVES"
    print(f"{row.rule:<4} {row.mutant:<50} {verdict:<110} {outcome.seconds:6.1f}", flush=True)
    return outcome.is_kill


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
