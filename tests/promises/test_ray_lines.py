"""What the doctor says of a Ray that is not there, or of nodes that differ."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ray_committer.executors.ray.survey import NodeAnswer, Survey
from ray_committer.promises.lines import Verdict
from ray_committer.promises.ray_lines import survey_lines
from ray_committer.promises.scratch import PROOF
from ray_committer.version import __version__
from tests.own_stores import with_packages

DEAD = "127.0.0.1:1"
GOOD = NodeAnswer("good", __version__, PROOF)


def found(*answers: NodeAnswer, free: float = 4.0) -> Survey:
    return Survey("2.60", answers, free_cpus=free, workers=4, wanted_cpus=0.4)


@pytest.mark.parametrize(
    ("bad", "package", "same_store"),
    [
        (GOOD, Verdict.OK, Verdict.OK),
        (NodeAnswer("bad", "0.0.1", PROOF), Verdict.FAILED, Verdict.OK),
        (NodeAnswer("bad", __version__, b"another"), Verdict.OK, Verdict.FAILED),
        (NodeAnswer("bad", __version__, "FileNotFoundError: x"), Verdict.OK, Verdict.FAILED),
        (NodeAnswer("bad", error="No module named 'ray_committer'"), Verdict.FAILED, Verdict.FAILED),
    ],
)
def test_a_node_that_differs_is_named(bad: NodeAnswer, package: Verdict, same_store: Verdict):
    _, *lines, _ = survey_lines(found(GOOD, bad))
    for line, verdict in zip(lines, (package, same_store), strict=True):
        assert line.verdict is verdict
        assert ("bad: " in line.measured) == (verdict is Verdict.FAILED)


def test_a_cluster_without_nodes_fails():
    assert survey_lines(found())[0].verdict is Verdict.FAILED
    assert survey_lines(found(GOOD))[0].verdict is Verdict.OK


def test_room_is_compared_with_what_workers_ask_for():
    assert survey_lines(found(GOOD, free=0.4))[-1].verdict is Verdict.OK
    assert survey_lines(found(GOOD, free=0.3))[-1].verdict is Verdict.WARNING


def doctor(
    dest: Path | str, *arguments: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ray_committer.cli", "doctor", str(dest), *arguments]
    environment = {**environment, "RAY_ADDRESS": DEAD}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(60)
def test_a_dead_ray_fails_only_if_it_was_asked_for(dest: Path):
    asked = doctor(dest, "--executor", "ray")
    assert asked.returncode == 1
    assert f"not used: RAY_ADDRESS={DEAD}: no Ray cluster answers there" in asked.stdout
    assert [line for line in asked.stdout.splitlines() if line.startswith("failed")] == [
        line for line in asked.stdout.splitlines() if line.startswith("failed   ray ")
    ]
    assert "clean-up" in asked.stdout
    assert "Traceback" not in asked.stderr
    assert not dest.exists()


@pytest.mark.timeout(60)
def test_a_dead_ray_that_auto_would_take_is_a_note(fsspec_stores: Path):
    unasked = doctor("memory://t/table", environment=with_packages(fsspec_stores))
    assert unasked.returncode == 0
    assert "note     ray" in unasked.stdout
