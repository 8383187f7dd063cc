"""What the configurations are pinned to: versions of constraints.txt, pyproject and this package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from ray_committer.version import __version__

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "cluster_configs"

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_IMAGE = re.compile(r"rayproject/ray:\S+?(?=[\s\"',]|$)")
_OWN_IMAGE = re.compile(r"registry\.example\.com/[\w-]+:(?P<version>[\w.]+)")
_PACKAGE = re.compile(r"ray-committer(?:\[(?P<extra>[\w,]+)\])?==(?P<version>[\w.]+)")
_UNPINNED = re.compile(r"pip install\b.*\bray-committer(?!\S*==)")


def ray_version() -> str:
    """The Ray that the tests run with."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("ray==")).removeprefix("ray==")


def image() -> str:
    """Ray's image with the lowest Python that this package takes."""
    python = _PROJECT["requires-python"].removeprefix(">=").replace(".", "")
    return f"rayproject/ray:{ray_version()}-py{python}"


def own_image() -> str:
    """The image that cluster_configs/Dockerfile makes of it, and this package."""
    return f"registry.example.com/ray-committer:{__version__}"


def spark_image() -> str:
    """Spark's own image, with the Spark 3.5 that the tests run with."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    version = next(line for line in lines if line.startswith("pyspark==")).removeprefix("pyspark==")
    return f"apache/spark:{version}-scala2.12-java17-python3-ubuntu"


def wrong_pins(text: str) -> Iterator[str]:
    """What a file names of other versions than these, or without any."""
    for found in _IMAGE.findall(text):
        if found != image():
            yield f"{found}: is not {image()}"
    for found in _OWN_IMAGE.finditer(text):
        if found["version"] != __version__:
            yield f"{found[0]}: is not version {__version__}"
    for found in _PACKAGE.finditer(text):
        if found["version"] != __version__:
            yield f"{found[0]}: is not version {__version__}"
        extras = (found["extra"] or "").split(",")
        for extra in filter(None, extras):
            if extra not in _PROJECT["optional-dependencies"]:
                yield f"{found[0]}: there is no extra {extra}"
    if unpinned := _UNPINNED.search(text):
        yield f"{unpinned[0]}: names no version"
    for found in re.findall(r"(?i)rayVersion: [\"']?([\w.]+)", text):
        if found != ray_version():
            yield f"rayVersion {found}: is not {ray_version()}"
