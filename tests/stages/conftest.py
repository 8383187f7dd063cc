"""What tests of several stages use by name."""

from __future__ import annotations

import pytest

from ray_committer.stages import load_manifests


@pytest.fixture(params=["small", "large"])
def small_and_large_jobs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of a large job are looked at while it is loaded, of a small one before it is frozen."""
    if request.param == "large":
        monkeypatch.setattr(load_manifests, "SMALL_MANIFESTS", 0)
