"""The wheel as users install it: on each version of Python, and by each line that a page prints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ray_committer.version import __version__
from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks

pytestmark = [pytest.mark.slow, pytest.mark.wide]

TOOLS = [
    "hypothesis>=6.100",
    "polars>=1,<3",
    "pytest>=8,<9.2",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "trustme>=1.2",
]
QUICK = "not (wide or slow or server or ray or spark or hadoop)"
QUICK_TESTS = [
    f"tests/{name}" for name in ("protocol", "limits", "executors", "job_files", "work", "jobs")
]
BLOCKS = all_blocks()
MOUNTED = "/home/ray/dist"
"""Where the files for `ray up` put the wheel on each node."""
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


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_quick_tests_pass_on_the_other_pythons(dist: Path, tmp_path: Path, version: str):
    """All other tests run on Python 3.11."""
    subprocess.run([python(version), "-m", "venv", str(tmp_path / "env")], check=True)
    own = str(tmp_path / "env" / "bin" / "python")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**inherited, "PIP_FIND_LINKS": str(dist), "JAVA_TOOL_OPTIONS": ""}  # without Spark
    install = [own, "-m", "pip", "install", "--quiet", "ray-committer[arrow,delta,s3]", *TOOLS]
    subprocess.run(install, env=environment, check=True)
    tests = [own, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-m", QUICK, *QUICK_TESTS]
    done = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert re.search(r"\b\d{4,} passed", done.stdout), done.stdout[-500:]


@pytest.mark.parametrize("line", LINES + CONFIGS)
def test_each_line_that_is_printed_finds_the_wheel_and_its_extras(dist: Path, line: str):
    """Its dependencies, and other packages, which are on an index, are not looked for."""
    printed = [word for word in shlex.split(line)[2:] if re.match(rf"-|{MOUNTED}|ray-committer", word)]
    words = [str(dist) if word == MOUNTED else word for word in printed]
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--no-index"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *words],
        env={**os.environ, "PIP_FIND_LINKS": "" if str(dist) in words else str(dist)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr


@pytest.fixture
def context(dist: Path, tmp_path: Path) -> Path:
    """A directory in which images are built: the checkout after `make dist`."""
    shutil.copytree(dist, tmp_path / "context" / "dist")
    return tmp_path / "context"


def run_dockerfile(context: Path, **environment: str) -> None:
    """Copy what the Dockerfile copies, and run its lines, below another directory than /."""
    root = context.parent / "root"
    text = (ROOT / "cluster_configs" / "Dockerfile").read_text().replace("\\\n", "")
    (root / "tmp" / "dist").mkdir(parents=True)
    for instruction, words in re.findall(r"^(COPY|RUN) (.*)$", text, flags=re.MULTILINE):
        if instruction == "COPY":
            (source,) = context.glob(words.split()[0])
            shutil.copy(source, root / "tmp" / "dist")
        else:
            line = words.replace("/tmp/", f"{root}/tmp/")
            subprocess.run(line, shell=True, env=environment, cwd=root, check=True)


@pytest.mark.timeout(900)
def test_the_lines_of_the_image_install_the_command(context: Path, tmp_path: Path):
    subprocess.run([python("3.11"), "-m", "venv", str(tmp_path / "env")], check=True)
    programs = tmp_path / "env" / "bin"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_FIND")}
    run_dockerfile(
        context, **{**plain, "PATH": f"{programs}:/usr/bin:/bin", "EXTRAS": "gcs,s3,adls,hdfs"}
    )
    shown = subprocess.run([programs / "ray-committer", "--version"], capture_output=True, check=True)
    assert __version__ in shown.stdout.decode()
    subprocess.run([programs / "python", "-c", "import gcsfs, adlfs, botocore, hdfs_native"], check=True)
