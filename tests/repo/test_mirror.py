"""A module's tests are where its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "ray_committer", ROOT / "tests"
NO_ROOMS = {
    "cluster_configs",
    "commits",
    "conformance",
    "data",
    "docs",
    "integration",
    "models",
    "mutants",
    "repo",
    "servers",
}
"""What is not one room of the package: CONTRIBUTING.md describes each."""

STAGES = (
    "setup_job",
    "setup_task",
    "scan_task_attempt_directory",
    "save_task_manifest",
    "commit_task",
    "abort_task",
    "load_manifests",
    "preflight",
    "freeze_manifests",
    "record_job",
    "save_commit_record",
    "create_output_directories",
    "rename_files",
    "validate_renamed_files",
    "remove_replaced_files",
    "save_success_file",
    "cleanup_job",
    "sync_to_disk",
    "commit_job",
    "abort_job",
    "undo_job",
)
"""The stages of the protocol; other modules of that room serve several."""


def directories(parent: Path) -> set[str]:
    return {path.name for path in parent.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_each_directory_of_tests_is_a_room_of_the_package_or_known():
    assert directories(TESTS) - directories(PACKAGE) == NO_ROOMS


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_a_test_file_of_its_own(stage: str):
    assert (PACKAGE / "stages" / f"{stage}.py").is_file()
    assert (TESTS / "stages" / f"test_{stage}.py").is_file()
