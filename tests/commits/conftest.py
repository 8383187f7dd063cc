"""What tests of whole commits share."""

from __future__ import annotations

import pytest

from ray_committer.stores import guarded


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that a store refused is made again at once: faults are drawn by number, not by time."""
    monkeypatch.setattr(guarded, "backoff_seconds", lambda _: 0.0)
    monkeypatch.setattr(guarded, "STATE_SECONDS", 0.0)
