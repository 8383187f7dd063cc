"""Run `tests.machines.schedules` as it is run by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import destination_url
from tests.docs.blocks import ROOT
from tests.tiers import RANGE, parts


@dataclass(frozen=True)
class Found:
    """What it printed: each schedule that went wrong, and how many ran."""

    exit_code: int
    wrong: list[dict[str, str]]
    ran: int


PARTS, TURNS = 160, 3
PARTS_OF_A_SERVER = parts(PARTS, wide=20)
PART_OF_A_TABLE = [pytest.param(RANGE % PARTS, marks=pytest.mark.wide)]
STRIDE_OF_A_SERVER = 89
"""One of so many schedules of a part's pairs of operations is run: about 3."""


def check_server(spec: StoreSpec, directory: str, part: int, *more: str) -> None:
    """A part of the turns of three processes and of the schedules of two, in a directory of a server."""
    where = (
        *more,
        "--store",
        destination_url(spec, directory),
        "--options",
        json.dumps(spec.storage_options),
    )
    turns = run_schedules(*where, "--random", "--offset", str(part * TURNS), "--most", str(TURNS))
    assert turns.wrong == [], turns.wrong
    assert turns.ran == TURNS
    pairs = run_schedules(*where, "--part", f"{part + 1}/{PARTS}", "--stride", str(STRIDE_OF_A_SERVER))
    assert pairs.wrong == [], pairs.wrong
    assert pairs.ran > 0


def run_schedules(*arguments: str, without: Sequence[str] = ()) -> Found:
    """Run them in a process of their own, since it forks; `without` the rules of some mutants."""
    command = [sys.executable, "-m", "tests.machines.schedules", *arguments]
    command += [word for name in without for word in ("--without", name)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert ended.stdout, ended.stderr
    *wrong, counts = map(json.loads, ended.stdout.splitlines())
    assert counts["wrong"] == len(wrong)
    return Found(ended.returncode, wrong, counts["ran"])
