"""The wheel as users install it: on each version of Python, and by each line that a page prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks

pytestmark = [pytest.mark.slow, pytest.mark.wide]

BLOCKS = all_blocks()
LINES = [
    line
    for name, why in ways.NOT_RUN.items()
    if why == ways.INSTALLS
    for line in re.findall(r"^pip install .*$", BLOCKS[name].text, flags=re.MULTILINE)
]
CONFIGS = [
    line.strip()
    for path in sorted((ROOT / "cluster_configs").iterdir())
    if path.suffix in (".yaml", ".md")
    for line in re.findall(r"pip install [^\n|]*ray-committer[^\n|#]*", path.read_text())
]


def python(version: str) -> str:
    """A Python of a version, on the PATH or of pyenv."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    assert others, f"install Python {version}, for example by: pyenv install {version}"
    return str(others[-1])


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return target


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_demo_runs_after_the_install_without_java_and_spark(
    dist: Path, tmp_path: Path, version: str
):
    subprocess.run([python(version), "-m", "venv", str(tmp_path / "env")], check=True)
    programs = tmp_path / "env" / "bin"
    environment = {**os.environ, "PIP_FIND_LINKS": str(dist)}
    subprocess.run(
        [programs / "pip", "install", "--quiet", "ray-committer"], env=environment, check=True
    )
    done = subprocess.run(
        [programs / "ray-committer", "demo"],
        cwd=tmp_path,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Checked: each of the 2,000 files is there once" in done.stdout
    command = [programs / "ray-committer", "explain", "RC-bug"]
    explained = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "An exception that this package does not expect." in explained.stdout


@pytest.mark.parametrize("line", LINES + CONFIGS)
def test_each_line_that_is_printed_finds_the_wheel_and_its_extras(dist: Path, line: str):
    """Its dependencies, which are on an index, are not looked for."""
    (name,) = re.findall(r"ray-committer\[[^\"' ]*", line)
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--no-index"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, name],
        env={**os.environ, "PIP_FIND_LINKS": str(dist)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr
