"""Whatever kinds of things stand in the way of a commit, one error names them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.errors import (
    SHOWN,
    CommitCancelledError,
    CommitConflictError,
    LinkedPathError,
    ManifestError,
    PreflightError,
    RayCommitterError,
    some_of,
)
from ray_committer.job_files.job_state import adopt_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import TEMPORARY, JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages.checks.obstacles import noted, refuse
from ray_committer.stores.base import StoreSpec
from ray_committer.testing import run_commit, write_job
from tests.stages.support import WithMount


@pytest.mark.parametrize(
    ("named", "count", "text"),
    [
        (["a"], None, "a"),
        (["a", "b"], None, "a | b"),
        (["a", "b"], 7, "a | b | and 5 more"),
        (["a"] * SHOWN, None, " | ".join(["a"] * SHOWN)),
        (["a"] * (SHOWN + 2), None, " | ".join(["a"] * SHOWN) + " | and 2 more"),
    ],
)
def test_some_are_named_and_the_others_counted(named: list[str], count: int | None, text: str):
    assert some_of(named, count) == text


def test_nothing_in_the_way_is_no_error():
    refuse([])


def test_one_error_is_raised_as_it_is():
    error = PreflightError("a")
    with pytest.raises(PreflightError) as caught:
        refuse([error])
    assert caught.value is error


def test_several_are_one_of_the_kind_of_the_first():
    both = "do 1; do 2"
    said = [CommitConflictError("a"), ManifestError("b", both), PreflightError("c", both)]
    with pytest.raises(CommitConflictError) as caught:
        refuse(said)
    assert str(caught.value) == f"a. Also: b. Also: c; {CommitConflictError.usual_advice}; do 1; do 2"


@pytest.mark.parametrize("error", [CommitConflictError, LinkedPathError, PreflightError])
def test_what_is_in_the_way_is_noted(error: type[RayCommitterError]):
    errors: list[RayCommitterError] = []
    with noted(errors):
        raise error("a")
    assert [type(one) for one in errors] == [error]


@pytest.mark.parametrize("error", [PermissionError, CommitCancelledError])
def test_what_keeps_from_looking_is_not(error: type[Exception]):
    errors: list[RayCommitterError] = []
    with pytest.raises(error), noted(errors):
        raise error("a")
    assert errors == []


def source_gone(root: Path, job: JobAttempt) -> None:
    for path in Path(job.tasks).rglob("gone"):
        path.unlink()


def name_taken(root: Path, job: JobAttempt) -> None:
    (root / "taken").write_text("of somebody else")


def link_to_nothing(root: Path, job: JobAttempt) -> None:
    (root / "p=3").symlink_to(root / "nowhere")


def directory_there(root: Path, job: JobAttempt) -> None:
    (root / "taken").mkdir()


def odd_name(root: Path, job: JobAttempt) -> None:
    (root / "old-\udcff").write_text("old")


GONE = "names 1 files that are missing or changed"
MOUNT = "1 directories of the output are on another file system"
TAKEN = "taken: is there already"
HOLDS = "holds data already (taken)"
LINK = "p=3: is a link to nothing where the job needs a directory"
PLACE = "taken: is a directory where the job needs a file"
ODD = "is not UTF-8"


def outside(root: Path) -> list[Path]:
    """What is at the destination, without the files of jobs."""
    return sorted(path for path in root.rglob("*") if TEMPORARY not in path.parts)


Act = Callable[[Path, JobAttempt], None]


@pytest.mark.usefixtures("small_and_large_jobs")
@pytest.mark.parametrize(
    ("mode", "wrong", "kind", "named"),
    [
        (ConflictMode.APPEND, [source_gone, name_taken], ManifestError, [GONE, MOUNT, TAKEN]),
        (ConflictMode.APPEND, [name_taken, link_to_nothing], PreflightError, [MOUNT, LINK, TAKEN]),
        (ConflictMode.ERROR, [source_gone, name_taken], ManifestError, [GONE, HOLDS, MOUNT]),
        (ConflictMode.ERROR, [name_taken], CommitConflictError, [HOLDS, MOUNT]),
        (ConflictMode.OVERWRITE, [source_gone, directory_there], ManifestError, [GONE, MOUNT, PLACE]),
        (ConflictMode.OVERWRITE, [source_gone, odd_name], ManifestError, [GONE, MOUNT, ODD]),
    ],
)
def test_all_kinds_are_reported_at_once(
    tmp_path: Path, mode: ConflictMode, wrong: list[Act], kind: type[RayCommitterError], named: list[str]
):
    store, job = WithMount(StoreSpec("file")), new_job_attempt(str(tmp_path), "job", 0)
    names = ("gone", "taken", "p=2/a", "p=3/b")
    write_job(store, job, {task: {name: b"1"} for task, name in enumerate(names)})
    for act in wrong:
        act(tmp_path, job)
    before = outside(tmp_path)
    with pytest.raises(RayCommitterError) as caught:
        run_commit(store, job, CommitOptions(mode=mode))
    text = str(caught.value)
    assert type(caught.value) is kind
    assert [text.count(what) for what in named] == [1] * len(named), text
    assert sorted(named, key=text.index) == named
    assert adopt_state(store, job).phase is Phase.OPEN
    assert outside(tmp_path) == before
