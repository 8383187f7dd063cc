"""The package's structure: imports point one way, and what is public is documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ray_committer

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ray_committer"


def test_imports_point_one_way():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


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


def test_every_public_name_says_what_it_is():
    for name in ray_committer.__all__:
        if name != "__version__":
            assert getattr(ray_committer, name).__doc__, name


MOVES = {
    "work/publish_entry.py": "a task's file gets its name at the destination",
    "job_files/settle.py": "`put`: a job's own file gets its name",
    "stages/undo_job.py": "a task's file is taken back",
    "stages/old_files.py": "an old file is put aside, or back",
    "stages/remove_listed_files.py": "an old file of a job that is gone is put aside, or kept",
    "tables/put.py": "an entry of a table's log gets its version",
}
"""The modules that move files of a store. A state changes by `advance`, and only by that."""


def test_a_rename_has_few_meanings_each_in_one_module():
    moving = re.compile(r"\bstore\.(rename|replace)\(")
    rooms = ("doctor_checks", "job_files", "jobs", "stages", "spark", "tables", "work", "writers")
    modules = [path for room in rooms for path in (PACKAGE / room).rglob("*.py")]
    found = {str(path.relative_to(PACKAGE)) for path in modules if moving.search(path.read_text())}
    assert found == MOVES.keys()
