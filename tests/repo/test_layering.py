"""The package's structure: imports point one way, and what is public is documented."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ray_committer

ROOT = Path(__file__).parents[2]


def test_imports_point_one_way():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_importing_the_package_imports_neither_ray_nor_spark():
    code = "import sys, ray_committer; print(sorted({'ray', 'pyspark'} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_says_what_it_is():
    for name in ray_committer.__all__:
        if name != "__version__":
            assert getattr(ray_committer, name).__doc__, name
