"""Packages with a store of their own, as pip would install them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

FSSPEC_STORE = Path(__file__).parents[1] / "docs/examples/fsspec_store.py"
OPENS_FSSPEC_STORE = "fsspec_store:open_fsspec_store"
"""The entry point of that example."""


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


def install_fsspec_store(site: Path, *schemes: str) -> None:
    """Install the example for these schemes."""
    points = {"ray_committer.stores": dict.fromkeys(schemes, OPENS_FSSPEC_STORE)}
    install(site, FSSPEC_STORE.stem, FSSPEC_STORE.read_text(), points)


def with_packages(site: Path) -> dict[str, str]:
    """The environment of a process that finds the packages in `site`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
