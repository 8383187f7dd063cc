"""The package's structure: imports point one way, and cost no more than who makes them needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


MOST_ROOMS = 22
GROUND = {"errors", "events", "version"}
"""The modules that everybody knows. Together they are one room."""


def test_imports_point_one_way():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_there_are_few_rooms_and_no_two_import_each_other():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = next(one for one in contracts if one["name"] == "Imports point one way")["layers"]
    rooms = {room for floor in floors for room in floor.split(" | ")}
    assert not [room for room in rooms if ":" in room]
    assert len(rooms - GROUND) + 1 <= MOST_ROOMS


SEVERAL_STEPS = {"publish_job", "sync_to_disk"}


def test_beside_their_context_only_stages_stand_among_the_stages():
    modules = {one.stem: one.read_text() for one in (ROOT / "ray_committer" / "stages").glob("*.py")}
    others = {name for name, text in modules.items() if f"\ndef {name}(" not in text}
    assert others == {"__init__", "context", *SEVERAL_STEPS}


SLOW = {"click", "fsspec", "numpy", "pyarrow", "pyspark", "ray", "rich"}
COMMIT = """
import sys, ray_committer
job = ray_committer.setup_job(sys.argv[1])
with ray_committer.task_attempt(sys.argv[1], job, task=0) as attempt, attempt.open("a") as file:
    file.write(b"1")
ray_committer.commit_job(sys.argv[1], job)
"""


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import ray_committer", set()),
        (COMMIT, set()),
        ("import ray_committer.cli.main", {"click"}),
    ],
)
def test_what_takes_long_to_import_is_imported_by_who_needs_it(
    tmp_path: Path, code: str, needed: set[str]
):
    code += f"\nimport sys\nprint(sorted({SLOW!r} & sys.modules.keys()))"
    command = [sys.executable, "-c", code, str(tmp_path / "table")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(sorted(needed))


def test_the_names_of_the_package_are_known_before_they_are_imported():
    code = "import ray_committer as r; print(set(r.__all__) <= set(dir(r)), hasattr(r, 'no_such_name'))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True False"
