"""Which jobs are at a destination is asked in one place: one listing, one value, few modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ray_committer"
ROOM = {"job_status", "listing", "read_job", "others"}
"""The modules of `job_files` that answer which jobs are there, mine and others'."""
NAMES = {"GONE_PREFIX", "DOCUMENTED_PREFIX", "job_id_of_directory", "attempt_number"}
"""What the names below ``_temporary`` are made of."""


def modules(directory: str = "") -> Iterator[tuple[str, ast.Module]]:
    for file in sorted((PACKAGE / directory).rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix().removesuffix(".py"), ast.parse(file.read_text())


def imported(tree: ast.Module) -> set[str]:
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in froms for alias in node.names}


def test_only_the_listing_says_what_a_name_below_temporary_is():
    found = [
        name
        for name, tree in modules()
        if not name.startswith("protocol/") and not NAMES.isdisjoint(imported(tree))
    ]
    assert found == ["job_files/listing"]


def test_four_modules_answer_which_jobs_are_there():
    found = [name for name, tree in modules("job_files") if "JobStatus" in imported(tree)]
    assert {name.rpartition("/")[2] for name in found} == ROOM - {"job_status"}


def test_one_value_says_what_is_known_of_a_job():
    """A class with the place of a job in it says something about that job."""
    found = [
        f"{name}.{node.name}"
        for name, tree in modules("job_files")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) == "JobAttempt"
    ]
    assert found == ["job_files/job_status.JobStatus"]
