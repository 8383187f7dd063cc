"""Names that are no data among a task's files: the commit passes over them, and says so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import PreflightError
from ray_committer.protocol.manifest import TaskManifest
from ray_committer.protocol.passed_over import PASSED_OVER, PassedOver, passed_over_by

HIDDEN = ("p=1/.nfs000000000001", ".fuse_hidden0001", "p=1/.smbdeleteAAA01", "._part", ".a.crc")


def write_beside(dest: Path, hidden: Mapping[str, str] | tuple[str, ...], *, gone: bool = False) -> None:
    """A job whose task has opened one file, and whose directory then holds other names."""
    ray_committer.setup_job(str(dest), "job_1")
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        with attempt.open("p=1/data") as file:
            file.write(b"x")
        for name in hidden:
            Path(attempt.directory, name).parent.mkdir(parents=True, exist_ok=True)
            Path(attempt.directory, name).write_text("removed, but open")
    for name in hidden if gone else ():
        Path(attempt.directory, name).unlink()


@pytest.mark.parametrize("gone", [False, True])
def test_names_that_a_file_system_makes_are_passed_over_with_a_notice(dest: Path, tree, gone: bool):
    write_beside(dest, HIDDEN, gone=gone)
    report = ray_committer.commit_job(str(dest), "job_1")
    assert (report.files, tree()) == (1, {"p=1/data": "x"})
    (notice,) = report.notices
    assert all(name in notice for name in HIDDEN)
    assert f"{dest}/_temporary/job_1/00/tasks: " in notice
    assert "are not committed" in notice


def test_the_notice_comes_once_and_from_each_run_of_the_commit(dest: Path):
    write_beside(dest, HIDDEN)
    recorded = ray_committer.record_job(str(dest), "job_1")
    report = ray_committer.commit_job(str(dest), "job_1")
    assert [len(one.notices) for one in (recorded, report)] == [1, 1]


def test_a_name_that_a_task_has_asked_for_is_committed_or_refused_at_once(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        for name in (".hidden", "_meta/x", "a._COPYING_", ".nfs01"):
            with attempt.open(name) as file:
                file.write(b"x")
        for name in ("_SUCCESS", "_temporary/x", "p=1/_ray_committer/x", "n" * 256):
            with pytest.raises(
                PreflightError, match=r"the commit itself needs|is longer than the store"
            ):
                attempt.open(name)
            with pytest.raises(PreflightError):
                attempt.path(name)
    report = ray_committer.commit_job(str(dest), "job_1")
    assert (report.notices, set(tree())) == ([], {".hidden", "_meta/x", "a._COPYING_", ".nfs01"})


def test_a_special_file_that_a_manifest_names_is_found_before_the_record(dest: Path, write_job):
    """Hadoop's committer takes it for a file."""
    job = write_job({0: {"a": "x", "b": ""}})
    source = Path(job.task_attempt("attempt_1_m_000000_0"), "b")
    source.unlink()
    os.mkfifo(source)
    with pytest.raises(ray_committer.errors.ManifestError, match=r"/b: is not a regular file"):
        ray_committer.commit_job(str(dest), "job_1")


def test_what_tasks_have_passed_over_is_added_up_and_a_damaged_text_is_ignored():
    one = PassedOver.of([f".n{number:02d}" for number in range(30)])
    both = one.plus(PassedOver.of([".a"]))
    assert (both.number, both.names[:2], len(both.names)) == (31, (".a", ".n00"), 20)
    assert str(both).endswith("| and 11 more")
    for wrong in ("", "[", "7", '{"number": -1}', '{"number": 1, "names": [1]}', 7, None):
        manifest = TaskManifest(files=[], extra_data={PASSED_OVER: wrong})
        assert passed_over_by(manifest) == PassedOver()
