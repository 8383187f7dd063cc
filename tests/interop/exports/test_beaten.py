"""An export that was overtaken waits longer, the longer it ran, and begins again."""

from __future__ import annotations

import time
from itertools import count

import pytest

from ray_committer.errors import ExportError
from ray_committer.interop.exports.beaten import ATTEMPTS, BeatenError, until_done
from ray_committer.limits.waiting import OTHERS


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each pause was; each run takes ten seconds."""
    monkeypatch.setattr(time, "monotonic", map(float, count(step=10)).__next__)
    return []


def overtaken() -> None:
    raise BeatenError("by another one")


def test_an_export_that_comes_no_further_leaves_time_for_the_other_one(slept: list[float]):
    with pytest.raises(ExportError, match=r"/t: cannot be exported beside other programs \(by another"):
        until_done(overtaken, "/t", sleep=slept.append)
    assert len(slept) == ATTEMPTS - 1
    for pause, runs in zip(slept, [0, 1, 2, 3, 4, 4], strict=False):
        assert 5 * runs < pause <= 10 * runs + OTHERS.longest


def test_an_export_that_comes_further_goes_on_soon(slept: list[float]):
    versions, left = count(), iter(range(50))

    def run() -> str:
        return "done" if next(left, None) is None else str(overtaken())

    assert until_done(run, "/t", versions.__next__, slept.append) == "done"
    assert len(slept) == 50
    assert max(slept) <= 2 * OTHERS.first
