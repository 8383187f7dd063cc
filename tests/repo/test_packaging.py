"""What is built carries the jar, and only a checkout needs a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # and they compile, by Java

ROOT = Path(__file__).parents[2]
JAR = "ray_committer/spark/jars/ray-committer.jar"
BUILT = (
    "ray_committer",
    "docs",
    "hatch_build.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".gitignore",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the project as git has it: without the jar."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in BUILT:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("jars", "__pycache__")
            )
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture
def no_compiler(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has Python and nothing else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)
    return {**os.environ, "PATH": str(tools)}


def build(checkout: Path, target: str, environment: dict[str, str] | None = None) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(checkout / "dist")]
    result = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ChildProcessError(result.stdout + result.stderr)
    pattern = "*.whl" if target == "wheel" else "*.tar.gz"
    return next((checkout / "dist").glob(pattern))


@pytest.mark.wide
def test_the_wheel_carries_the_jar_and_not_its_sources(checkout: Path):
    with zipfile.ZipFile(build(checkout, "wheel")) as wheel:
        names = wheel.namelist()
    assert JAR in names
    assert "ray_committer/py.typed" in names
    assert [name for name in names if name.endswith(".java")] == []


def test_a_wheel_is_built_from_the_sdist_without_a_compiler(
    checkout: Path, tmp_path: Path, no_compiler: dict[str, str]
):
    (tmp_path / "unpacked").mkdir()
    sdist = build(checkout, "sdist")
    subprocess.run(["tar", "xzf", str(sdist), "-C", str(tmp_path / "unpacked")], check=True)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheel = build(unpacked, "wheel", no_compiler)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(JAR) == (checkout / JAR).read_bytes()
        assert archive.read("ray_committer/errors.md") == (ROOT / "docs/errors.md").read_bytes()


def test_a_checkout_without_a_compiler_says_what_is_needed(checkout: Path, no_compiler: dict[str, str]):
    with pytest.raises(ChildProcessError, match=r"a JDK .* is needed to build from a checkout"):
        build(checkout, "wheel", no_compiler)


@pytest.mark.wide
def test_changed_sources_are_compiled_again(checkout: Path):
    build(checkout, "wheel")
    before = (checkout / JAR).read_bytes()
    source = checkout / "ray_committer/spark/java/src/io/raycommitter/Bridge.java"
    changed = re.sub(r"PROTOCOL_VERSION = \d+", "PROTOCOL_VERSION = 99", source.read_text())
    source.write_text(changed)
    shutil.rmtree(checkout / "dist")
    build(checkout, "wheel")
    assert (checkout / JAR).read_bytes() != before
