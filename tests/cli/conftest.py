"""Destinations that an ordinary user may look into, and how old a job is."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_dest() -> Iterator[Path]:
    """A destination that any user may look into, unlike pytest's own directories."""
    root = Path(tempfile.mkdtemp(prefix="ray-committer-test-"))
    root.chmod(0o755)
    yield root / "table"
    if os.getuid() == 0:
        os.seteuid(0)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(root)


@pytest.fixture
def make_old() -> Callable[[str | Path, float], None]:
    """Let all that is in a directory have changed last so many days ago."""

    def make(directory: str | Path, days: float) -> None:
        then = time.time() - days * 86_400
        for path in (Path(directory), *Path(directory).rglob("*")):
            os.utime(path, (then, then))

    return make
