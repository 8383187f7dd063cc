"""What tests of several stages use by name."""

from __future__ import annotations

import pytest

from ray_committer.stages import bind_versions
from ray_committer.stages.checks import sources


@pytest.fixture(params=["small", "large"])
def small_and_large_jobs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large job, sources are looked at in many parts, of a small one all at once."""
    if request.param == "large":
        monkeypatch.setattr(sources, "FILES_AT_ONCE", 1)
        monkeypatch.setattr(bind_versions, "FILES_AT_ONCE", 1)
