"""Packages with a store of their own, as pip would install them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def install(site: Path, name: str, module: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """Put a package of one module, with entry points by their groups, into the directory `site`."""
    information = site / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in named.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
    (site / f"{name}.py").write_text(module)


def with_packages(site: Path) -> dict[str, str]:
    """The environment of a process that finds the packages in `site`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
