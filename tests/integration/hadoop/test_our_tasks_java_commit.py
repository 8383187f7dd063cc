"""Our tasks, Hadoop's job commit: Java reads our manifests, commits them and validates the output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ray_committer.errors import PathError
from ray_committer.jobs.commit import commit_job, setup_job
from ray_committer.jobs.task_attempts import run_attempt, task_attempt
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.staging import is_staged, token_of
from tests.integration.hadoop.conftest import make_tree, read_tree, write_files

if TYPE_CHECKING:
    from .conftest import Hadoop, HadoopJob

pytestmark = [pytest.mark.hadoop, pytest.mark.xdist_group("hadoop")]

UUID = "7f0b1c3a-5b0e-4c5e-9c6e-0123456789ab"
VALIDATE = {"mapreduce__manifest__committer__validate__output": "true"}
FILES = {
    "plain": b"1",
    "a space/é": b"22",
    "100%/x%20y": b"333",
    "k=%3A/日本": b"4444",
    "emoji 😀/🚀": b"5",
    "q\"'/#?[]": b"",
    "+&;@/back\\slash": b"6",
    "c1\x85/nbsp\u00a0 tab\t line\u2028": b"7",
}
DIRECTORIES = {"empty/": b"", "empty é %/deep er/": b"", "a space/also empty/": b""}


def run_task(job: HadoopJob, task: int, files: dict[str, bytes], attempt: int = 0) -> None:
    with task_attempt(str(job.destination), job.job_id, task, attempt) as running:
        write_files(Path(running.directory), files)


@pytest.mark.parametrize("uuid", [None, UUID], ids=["mapreduce id", "spark id"])
@pytest.mark.parametrize("ours", [True, False], ids=["our setup", "java setup"])
def test_java_commits_and_validates_what_our_tasks_wrote(
    hadoop: Hadoop, destination: Path, uuid: str | None, ours: bool
) -> None:
    job = hadoop.job(destination, uuid=uuid, **VALIDATE)
    if ours:
        assert setup_job(str(destination), job.job_id) == job.job_id
    else:
        job.setup_job()
    names = list(FILES)
    run_task(job, 0, {name: FILES[name] for name in names[::2]})
    run_task(job, 1, {name: FILES[name] for name in names[1::2]})
    run_task(job, 2, {})
    run_task(job, 3, DIRECTORIES)
    job.commit_job()
    found = read_tree(destination)
    assert found.pop("_SUCCESS")
    assert found == make_tree(FILES, DIRECTORIES)
    assert hadoop.load_success(destination / "_SUCCESS").counters["committer_files_committed"] == len(
        FILES
    )


def write_staged(job: HadoopJob, task: int, names: list[str]) -> dict[str, bytes]:
    """Let a writer that chooses names write `FILES`; return what it has written, by names."""
    where = (str(job.destination), job.job_id, task, None)
    with run_attempt(*where, chooses_names=True) as running:
        token = token_of(running.task_attempt_id)
        files = {f"{name}-{token}.c000": FILES[name] for name in names}
        for name, data in files.items():
            file, path = running.open_chosen(name)
            with file:
                file.write(data)
            is_own = Path(path).is_relative_to(running.directory)
            assert is_own != is_staged(str(Path(path).parent), f"{job.directory}/tasks")
    assert Path(running.directory).exists() == (running.staged is None)
    return files


@pytest.mark.parametrize("ours", [True, False], ids=["our setup", "java setup"])
def test_java_commits_what_writers_that_choose_names_wrote(
    hadoop: Hadoop, destination: Path, ours: bool
) -> None:
    job = hadoop.job(destination, **VALIDATE)
    if ours:
        setup_job(str(destination), job.job_id)
    else:
        job.setup_job()
    names = list(FILES)
    files = write_staged(job, 0, names[::2]) | write_staged(job, 1, names)
    assert (job.directory / "tasks" / "in").exists() == ours
    job.commit_job()
    found = read_tree(destination)
    assert found.pop("_SUCCESS")
    assert found == make_tree(files, {})


def test_java_validation_is_on_and_notices_a_wrong_size(hadoop: Hadoop, destination: Path) -> None:
    from py4j.protocol import Py4JJavaError

    job = hadoop.job(destination, **VALIDATE)
    setup_job(str(destination), job.job_id)
    run_task(job, 0, {"a": b"four"})
    text = job.manifest(0).read_text()
    assert '"z":4' in text
    job.manifest(0).write_text(text.replace('"z":4', '"z":5'))
    with pytest.raises(Py4JJavaError, match="OutputValidationException"):
        job.commit_job()


def test_java_reads_every_field_of_our_manifest(hadoop: Hadoop, destination: Path) -> None:
    job = hadoop.job(destination)
    setup_job(str(destination), job.job_id)
    run_task(job, 0, {**FILES, **DIRECTORIES})
    loaded = hadoop.load_manifest(job.manifest(0))
    assert (loaded.job_id, loaded.task_id) == (job.job_id, "task_202401011200_0007_m_000000")
    assert loaded.task_attempt_id == "attempt_202401011200_0007_m_000000_0"
    root = job.directory / "tasks" / loaded.task_attempt_id
    assert loaded.files == {
        str(destination / name): (str(root / name), len(data), None) for name, data in FILES.items()
    }
    assert {str(destination / name) for name in DIRECTORIES} <= set(loaded.directories)


def test_our_manifest_and_javas_of_one_tree_say_the_same(hadoop: Hadoop, tmp_path: Path) -> None:
    said = []
    for name, ours in (("java", False), ("ours", True)):
        job = hadoop.job(tmp_path / "table öne" / name)
        job.setup_job()
        if ours:
            run_task(job, 0, {**FILES, **DIRECTORIES})
        else:
            job.run_task(0, {**FILES, **DIRECTORIES})
        manifest = decode_manifest(job.manifest(0).read_bytes(), name)
        root = manifest.task_attempt_dir or ""
        said.append(
            (
                sorted(
                    (e.s.replace("file:///", "file:/").removeprefix(root), e.z) for e in manifest.files
                ),
                sorted(e.d.rpartition(f"/{name}/")[2] for e in manifest.files),
                sorted((e.d.rpartition(f"/{name}/")[2], e.l) for e in manifest.directories or ()),
            )
        )
    assert said[0] == said[1]


def test_our_empty_task_is_a_twelfth_of_javas(hadoop: Hadoop, destination: Path) -> None:
    job = hadoop.job(destination)
    job.setup_job()
    run_task(job, 0, {})
    job.run_task(1, {})
    ours, javas = job.manifest(0).read_bytes(), job.manifest(1).read_bytes()
    assert 12 * len(ours) < len(javas)
    assert json.loads(ours)["files"] == json.loads(javas)["files"] == []


@pytest.mark.parametrize("last", ["ours", "java"])
@pytest.mark.parametrize("committer", ["ours", "java"])
def test_attempts_of_both_kinds_replace_one_another(
    hadoop: Hadoop, destination: Path, last: str, committer: str
) -> None:
    job = hadoop.job(destination, **VALIDATE)
    job.setup_job()
    if last == "ours":
        job.run_task(0, {"a": b"javas", "only java": b""}, attempt=0)
        run_task(job, 0, {"a": b"ours"}, attempt=1)
    else:
        run_task(job, 0, {"a": b"ours", "only ours": b""}, attempt=0)
        job.run_task(0, {"a": b"javas"}, attempt=1)
    if committer == "java":
        job.commit_job()
    else:
        assert commit_job(str(destination), job.job_id, executor="threads").outcome is Outcome.COMMITTED
    found = read_tree(destination)
    assert found.pop("_SUCCESS")
    assert found == {"a": b"ours" if last == "ours" else b"javas"}


def test_a_task_attempt_that_raises_leaves_nothing_for_java_to_commit(
    hadoop: Hadoop, destination: Path
) -> None:
    job = hadoop.job(destination, **VALIDATE)
    setup_job(str(destination), job.job_id)
    run_task(job, 0, {"a": b"1"})

    def write_and_fail() -> None:
        with task_attempt(str(destination), job.job_id, 1) as running:
            write_files(Path(running.directory), {"d/b": b"2"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    job.commit_job()
    found = read_tree(destination)
    assert found.pop("_SUCCESS")
    assert found == {"a": b"1"}


def test_a_name_that_is_not_text_stops_the_task_and_is_named(hadoop: Hadoop, destination: Path) -> None:
    job = hadoop.job(destination)
    setup_job(str(destination), job.job_id)
    with pytest.raises(PathError, match=r"part-\\udcff.*is not UTF-8"):
        run_task(job, 0, {os.fsdecode(b"part-\xff"): b"1"})
    assert not job.manifest(0).exists()


def test_hadoops_checksum_files_are_no_output_of_our_tasks(hadoop: Hadoop, destination: Path) -> None:
    job = hadoop.job(destination, **VALIDATE)
    setup_job(str(destination), job.job_id)
    with task_attempt(str(destination), job.job_id, 0) as running:
        written = Path(running.path("d/part-0"))
        hadoop.write(written, b"through Hadoop")
        assert (written.parent / ".part-0.crc").exists()
    assert list(hadoop.load_manifest(job.manifest(0)).files) == [str(destination / "d/part-0")]
    job.commit_job()
    assert hadoop.read(destination / "d/part-0") == b"through Hadoop"
