"""A plugin of pytest: make the mistake that a variable names, before any test is imported."""

from __future__ import annotations

import os

import pytest

from tests.mutants.runner import VARIABLE, mutants
from tests.mutants.swap import apply


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    apply(mutants()[os.environ[VARIABLE]])
