"""How old a job is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make_old() -> Callable[[str | Path, float], None]:
    """Let all that is in a directory have changed last so many days ago."""

    def make(directory: str | Path, days: float) -> None:
        then = time.time() - days * 86_400
        for path in (Path(directory), *Path(directory).rglob("*")):
            os.utime(path, (then, then))

    return make
