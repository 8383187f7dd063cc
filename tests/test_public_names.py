"""The page lists what is public, and a commit in threads needs neither Ray nor Spark."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "python_api.md").read_text()
LISTED = re.findall(r"^\| `(ray_committer[a-z_.]*)` \| (.*) \|$", PAGE, flags=re.MULTILINE)

assert LISTED

COMMIT = """
import sys

sys.modules.update(dict.fromkeys(["ray", "pyspark", "raydp", "pyarrow"]))
import ray_committer

dest = sys.argv[1]
job = ray_committer.setup_job(dest)
for task in range(3):
    with ray_committer.task_attempt(dest, job, task=task) as attempt:
        with attempt.open(f"day={task}/a") as file:
            file.write(b"x")
print(ray_committer.commit_job(dest, job, executor="threads").moved)
"""


def test_a_commit_in_threads_imports_neither_ray_nor_spark(tmp_path: Path):
    command = [sys.executable, "-c", COMMIT, str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


@pytest.mark.parametrize(("module", "listed"), LISTED)
def test_every_name_on_the_page_is_there(module: str, listed: str):
    if "__all__" in listed:
        assert importlib.import_module(module).__all__
        return
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())  # some need Ray
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(re.findall(r"`(\w+)`", listed)) - defined == set()
