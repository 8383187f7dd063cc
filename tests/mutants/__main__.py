"""``python -m tests.mutants [NAME ...]``: which test kills which mutant; exit with 1 if one lives."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.runner import Mutant, Outcome, environment, load_mutants, run_unchanged, try_mutant


def main(names: list[str]) -> int:
    """Try the mutants of these names, or all whose tests this interpreter can run."""
    mutants = load_mutants()
    if unknown := set(names) - {mutant.name for mutant in mutants}:
        sys.exit(f"no mutant is called {', '.join(sorted(unknown))}")
    wanted = names or [mutant.name for mutant in mutants if mutant.environment == environment()]
    verdicts = [_try(mutant) for mutant in mutants if mutant.name in wanted]
    print(f"{verdicts.count(True)} of {len(verdicts)} mutants are killed")
    return int(not all(verdicts))


def _try(mutant: Mutant) -> bool:
    unchanged = run_unchanged(mutant.tests)
    if unchanged.exit_code != pytest.ExitCode.OK:
        _print(mutant, "its tests do not pass without it", unchanged)
        return False
    outcome = try_mutant(mutant)
    _print(mutant, outcome.failed[0] if outcome.is_kill else "IT LIVES", outcome)
    return outcome.is_kill


def _print(mutant: Mutant, verdict: str, outcome: Outcome) -> None:
    print(f"{mutant.name:<60} {verdict:<110} {outcome.seconds:6.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
