"""An export that was overtaken waits longer, the longer it ran, and begins again."""

from __future__ import annotations

import random
import time
from itertools import count

import pytest

from ray_committer.errors import ExportError
from ray_committer.interop.exports.beaten import ATTEMPTS, BeatenError, until_done


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each pause was; each run takes ten seconds, and chance is always the most."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    monkeypatch.setattr(time, "monotonic", map(float, count(step=10)).__next__)
    monkeypatch.setattr(random, "uniform", lambda _least, most: most)
    return found


def overtaken() -> None:
    raise BeatenError("by another one")


def test_an_export_that_comes_no_further_leaves_time_for_the_other_one(slept: list[float]):
    with pytest.raises(ExportError, match=r"/t: cannot be exported beside other programs \(by another"):
        until_done(overtaken, "/t")
    assert len(slept) == ATTEMPTS - 1
    assert slept[:6] == pytest.approx([0.2, 10.4, 20.6, 30.8, 41.0, 41.2])


def test_an_export_that_comes_further_goes_on_soon(slept: list[float]):
    versions, left = count(), iter(range(50))

    def run() -> str:
        return "done" if next(left, None) is None else str(overtaken())

    assert until_done(run, "/t", versions.__next__) == "done"
    assert slept == [0.2] * 50
