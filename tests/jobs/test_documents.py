"""Files of jobs, ours and Hadoop's, are told by their content and read whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ray_committer
from ray_committer import DocumentKind
from ray_committer.errors import JobNotFoundError, ManifestError
from tests.stages.support import state_of

HADOOP = Path(__file__).parents[1] / "data" / "hadoop"


@pytest.mark.parametrize("path", sorted(HADOOP.glob("*/*.json")), ids=lambda path: path.stem)
def test_hadoops_success_files_and_reports_are_read(path: Path):
    found = ray_committer.read_document(str(path))
    assert found.kind is DocumentKind.SUCCESS
    assert found.success is not None
    assert found.content() == json.loads(path.read_bytes())
    assert path.stem.removeprefix("summary-") == found.success.job_id
    assert found.success.success == (not path.stem.endswith(("_0009", "_0010")))


@pytest.mark.parametrize("path", sorted(HADOOP.glob("manifests/*/*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["a-manifest.json", "copy.txt"])
def test_hadoops_manifests_are_read_under_any_name(path: Path, name: str, tmp_path: Path):
    copied = shutil.copy(path, tmp_path / name)
    found = ray_committer.read_document(str(copied))
    assert found.kind is DocumentKind.MANIFEST
    assert found.manifest is not None
    assert found.manifest.job_id == path.parent.name
    assert len(found.manifest.files) == len(json.loads(path.read_bytes())["files"])


def test_ours_are_read(write_job, dest: Path, store):
    job = write_job({0: {"a": "x"}})
    assert ray_committer.read_document(job.manifest("task_1_m_000000")).kind is DocumentKind.MANIFEST
    ray_committer.record_job(str(dest))
    path = job.content(state_of(store, job).record or "")
    record = ray_committer.read_document(path)
    assert record.kind is DocumentKind.RECORD
    assert record.record is not None
    assert record.record.files == 1
    options = ray_committer.CommitOptions(cleanup=False, summary_directory=str(dest / "_reports"))
    ray_committer.commit_job(str(dest), options=options)
    assert ray_committer.read_document(path).kind is DocumentKind.RECORD
    for path in (dest, dest / "_SUCCESS", dest / "_reports" / "summary-job_1.json"):
        found = ray_committer.read_document(str(path))
        assert found.kind is DocumentKind.SUCCESS
        assert found.success is not None
        assert found.success.job_id == "job_1"


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_success_is_that_of_a_classic_committer(dest: Path, content: bytes):
    dest.mkdir()
    (dest / "_SUCCESS").write_bytes(content)
    found = ray_committer.read_document(str(dest))
    assert (found.kind, found.content()) == (DocumentKind.EMPTY_SUCCESS, None)


@pytest.mark.parametrize("name", ["task_1-manifest.json", "0123456789abcdef.json", "_COMMITTED"])
def test_another_empty_file_is_none(tmp_path: Path, name: str):
    (tmp_path / name).touch()
    with pytest.raises(ManifestError, match=name):
        ray_committer.read_document(str(tmp_path / name))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": "another"}', "\x00\xff", '{"type": "x"}'])
def test_a_foreign_file_is_refused_by_name(tmp_path: Path, text: str):
    (tmp_path / "f").write_text(text)
    with pytest.raises(ManifestError, match=f"{tmp_path}/f: is"):
        ray_committer.read_document(str(tmp_path / "f"))


def test_a_missing_success_names_the_command_that_tells_more(dest: Path):
    dest.mkdir()
    with pytest.raises(JobNotFoundError, match=f"ray-committer status {dest}"):
        ray_committer.read_document(str(dest))
