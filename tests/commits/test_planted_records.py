"""A commit record is read from where others may write: it can name much, and change nothing more."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import msgspec
import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitStateUnknownError
from ray_committer.events import Event, StageStarted
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ReplacedFile, encode
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests import doubles
from tests.conftest import visible_files


@pytest.fixture
def recorded(write_job, dest: Path) -> JobAttempt:
    job = write_job({0: {"a": "new"}})
    ray_committer.record_job(str(dest))
    return job


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "kept").write_text("of others")
    return tmp_path / "archive"


def plant(job: JobAttempt, **changes: object) -> str:
    record = doubles.recorded(LocalStore(StoreSpec("file")), job)
    Path(job.content(record.nonce)).write_bytes(encode(msgspec.structs.replace(record, **changes)))
    return record.nonce


def old(path: Path | str) -> ReplacedFile:
    found = Path(path).stat()
    return ReplacedFile(str(path), found.st_size, found.st_mtime_ns // 1_000_000)


@pytest.mark.parametrize("kind", ["replaced", "overwritten"])
def test_old_files_elsewhere_stay(recorded: JobAttempt, dest: Path, archive: Path, kind: str):
    plant(recorded, mode=ConflictMode.OVERWRITE, **{kind: [old(archive / "kept")]})
    with pytest.raises(CommitStateUnknownError, match=r"change .*/archive, which is not below"):
        ray_committer.commit_job(str(dest))
    assert (archive / "kept").read_text() == "of others"
    assert visible_files(dest) == {}
    assert ray_committer.list_jobs(str(dest))[0].state == "recorded"


def test_the_command_that_allows_it_is_told_and_goes_on(recorded: JobAttempt, dest: Path, archive: Path):
    nonce = plant(recorded, replaced=[old(archive / "kept")])
    Path(recorded.aside(nonce), "old", "0").mkdir(parents=True)
    with pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(str(dest))
    words = shlex.split(str(caught.value).rpartition("allow it: ")[2])
    assert words[-2:] == ["--allowed-root", str(archive)]
    ray_committer.commit_job(str(dest), options=CommitOptions(allowed_roots=(words[-1],)))
    assert visible_files(dest) == {"a": "new"}
    assert not (archive / "kept").exists()


def test_an_old_directory_or_success_elsewhere_stays_and_is_named(
    recorded: JobAttempt, dest: Path, archive: Path
):
    (archive / "p=1").mkdir()
    for change in ({"emptied": [str(archive / "p=1")]}, {"success": old(archive / "kept")}):
        plant(recorded, **change)
        with pytest.raises(CommitStateUnknownError) as caught:
            ray_committer.commit_job(str(dest))
        allowed = archive / "p=1" if "emptied" in change else archive
        assert str(caught.value).endswith(f"--allowed-root {allowed}")
    assert sorted(path.name for path in archive.iterdir()) == ["kept", "p=1"]


@pytest.mark.parametrize("name", ["/../archive/kept", "/./b", "//b"])
def test_a_path_that_leads_out_by_its_elements_is_refused(
    recorded: JobAttempt, dest: Path, archive: Path, name: str
):
    plant(recorded, replaced=[ReplacedFile(f"{dest}{name}", 9)])
    with pytest.raises(CommitStateUnknownError, match="which no job can change"):
        ray_committer.commit_job(str(dest))
    assert (archive / "kept").exists()


def test_what_belongs_to_another_job_is_not_replaced(recorded: JobAttempt, dest: Path, write_job):
    other = write_job({0: {"b": "x"}}, job_id="job_2")
    (manifest,) = Path(other.manifests).iterdir()
    plant(recorded, replaced=[old(manifest)])
    with pytest.raises(CommitStateUnknownError, match="which no job can change"):
        ray_committer.commit_job(str(dest), "job_1")
    assert manifest.exists()


def test_roots_that_the_caller_does_not_allow_are_named(recorded: JobAttempt, dest: Path, archive: Path):
    plant(recorded, allowed_roots=[str(archive)])
    for run in (ray_committer.plan_job, ray_committer.commit_job):
        with pytest.raises(CommitStateUnknownError, match=f"--allowed-root {archive}"):
            run(str(dest))
    allowed = CommitOptions(allowed_roots=(str(archive),))
    assert ray_committer.plan_job(str(dest), options=allowed).moved == 0
    ray_committer.commit_job(str(dest), options=allowed)
    assert visible_files(dest) == {"a": "new"}


def test_a_record_that_appears_while_a_commit_begins_is_not_believed_either(
    write_job, dest: Path, archive: Path
):
    """It names the same manifests, so it is not refused for these."""
    job = write_job({0: {"a": "new"}})

    def overtake(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_save_commit_record":
            ray_committer.record_job(str(dest))
            plant(job, replaced=[old(archive / "kept")])

    with pytest.raises(CommitStateUnknownError, match="--allowed-root"):
        ray_committer.commit_job(str(dest), on_event=overtake)
    assert (archive / "kept").exists()
    assert visible_files(dest) == {}


UNDO = partial(ray_committer.abort_job, undo=True)


@pytest.mark.parametrize("action", [ray_committer.commit_job, UNDO])
@pytest.mark.parametrize("change", [{"job_id": "job_2"}, {"job_attempt": 1}, {"nonce": "another"}])
def test_the_record_of_another_job_is_not_this_ones(
    recorded: JobAttempt, dest: Path, action, change: dict[str, object]
):
    plant(recorded, **change)
    with pytest.raises(CommitStateUnknownError, match="is the record of attempt"):
        action(str(dest), "job_1")
    assert visible_files(dest) == {}
    assert len(list(Path(recorded.frozen).iterdir())) == 1


@pytest.mark.parametrize("is_planned", [False, True])
def test_an_undo_takes_nothing_from_places_that_the_caller_does_not_allow(
    recorded: JobAttempt, dest: Path, archive: Path, is_planned: bool
):
    plant(recorded, allowed_roots=[str(archive)])
    command = f"ray-committer abort {dest} --job-id job_1 --undo --allowed-root {archive}"
    undo = partial(ray_committer.plan_abort, undo=True) if is_planned else UNDO
    with pytest.raises(CommitStateUnknownError, match=command):
        undo(str(dest), "job_1")
    assert (archive / "kept").read_text() == "of others"
    assert ray_committer.list_jobs(str(dest))[0].state == "recorded"
