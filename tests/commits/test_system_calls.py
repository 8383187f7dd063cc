"""Committers and undos as real processes, stopped and killed between their system calls."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT
from tests.tiers import seeds

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("drawn", seeds(narrow=50, wide=1000))
@pytest.mark.parametrize(
    "how", [("-m", "tests.forbidden_calls", sys.executable), pytest.param((), marks=pytest.mark.wide)]
)
def test_nothing_of_an_undone_job_stays_and_nothing_of_a_later_one_goes(
    how: tuple[str, ...], drawn: range
):
    """By default where each rename is a link and an unlink."""
    rounds = ("--first", str(drawn.start), "--rounds", str(len(drawn)))
    command = [sys.executable, *how, "-m", "tests.machines.system_calls", *rounds]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert ended.stdout, ended.stderr
    *wrong, counts = map(json.loads, ended.stdout.splitlines())
    assert wrong == []
    assert counts == {"ran": len(drawn), "wrong": 0}
