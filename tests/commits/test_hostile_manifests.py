"""A manifest is input: whatever it holds, a commit refuses it by name before anything is changed.

Beside `test_preflight` (misplaced entries) and `tests/protocol/test_manifest` (what the parser refuses):
here a whole commit is run, and afterwards every file is where it was and the job can still be aborted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer.errors import ManifestError, PathError, PreflightError, RayCommitterError
from ray_committer.job_files.job_state import adopt_state
from ray_committer.protocol.manifest import MANIFEST_TYPE, STAMP
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore

MEGABYTE = 1 << 20
VICTIM = "task_1_m_000001"

Change = Callable[[dict[str, Any], JobAttempt], None]


@pytest.fixture
def job(write_job) -> JobAttempt:
    """Two tasks of two files; the manifest of the second is the one to spoil."""
    other = write_job({0: {"p=1/a": "other"}}, job_id="job_2")
    assert Path(other.tasks).is_dir()
    return write_job({0: {"p=1/a": "x", "p=1/b": "y"}, 1: {"p=1/c": "z", "d": "w"}})


def everything(root: Path) -> dict[str, bytes | None]:
    """All files with their bytes and all directories, ``_temporary`` included."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }


def refused(dest: Path) -> RayCommitterError:
    """Commit, which must fail without a trace; the job can then still be aborted."""
    before = everything(dest)
    with pytest.raises(RayCommitterError) as caught:
        ray_committer.commit_job(str(dest), "job_1", executor="inline")
    assert caught.value.exit_code == 1
    assert everything(dest) == before
    assert {found.job_id: found.state for found in ray_committer.list_jobs(str(dest))} == {
        "job_1": "running",
        "job_2": "running",
    }
    assert ray_committer.abort_job(str(dest), "job_1") is True
    return caught.value


def spoil(job: JobAttempt, change: Change) -> Path:
    path = Path(job.manifest(VICTIM))
    content = json.loads(path.read_bytes())
    change(content, job)
    path.write_text(json.dumps(content))
    return path


def entry(**fields: Any) -> Change:
    return lambda content, job: content["files"][0].update(fields)


def dest_uri(template: str) -> Change:
    """A destination in which ``{}`` stands for the path of the job's destination."""
    return lambda content, job: content["files"][0].update(d=template.format(job.destination))


def source_uri(template: str) -> Change:
    """A source in which ``{}`` stands for the directory of the job's task attempts."""
    return lambda content, job: content["files"][0].update(s=template.format(job.tasks))


def directory_uri(template: str) -> Change:
    """A directory to make, in which ``{}`` stands for the path of the job's destination."""
    return lambda content, job: content.update(directories=[{"d": template.format(job.destination)}])


def source_of(job_id: str, attempt: str) -> Change:
    """A source that exists, or could, in another job or in another attempt of this one."""
    name = f"file:{{}}/../../../{job_id}/{attempt}/tasks/attempt_1_m_000000_0/p=1/a"

    def change(content: dict[str, Any], job: JobAttempt) -> None:
        content["files"][0].update(s="file:" + os.path.normpath(name.format(job.tasks)[5:]))

    return change


def field(**fields: Any) -> Change:
    return lambda content, job: content.update(fields)


MISPLACED = [
    pytest.param(dest_uri("file:{}/../d"), "'..'", id="dot-dot"),
    pytest.param(dest_uri("file:{}/%2e%2e/d"), "'..'", id="encoded dot-dot"),
    pytest.param(dest_uri("file:{}/%2E%2e"), "'..'", id="encoded dot-dot at the end"),
    pytest.param(dest_uri("file:{}/p=1/.%2e"), "'..'", id="half encoded dot-dot at the end"),
    pytest.param(dest_uri("file:{}/p=1/%2e"), "'..'", id="encoded dot at the end"),
    pytest.param(dest_uri("file:{}/"), "outside the destination", id="the destination with a slash"),
    pytest.param(
        dest_uri("file:{}/%5ftemporary/job_2/00/state/nonce.json"), "the commit itself", id="record"
    ),
    pytest.param(dest_uri("file:{}/_temporary"), "the commit itself", id="all jobs"),
    pytest.param(dest_uri("hdfs://nn{}/d"), "another store", id="another scheme"),
    pytest.param(dest_uri("file://host{}/d"), "another store", id="another authority"),
    pytest.param(dest_uri("//host{}/d"), "no scheme", id="an authority without a scheme"),
    pytest.param(dest_uri("file:{}/a%00b"), "NUL", id="encoded NUL"),
    pytest.param(dest_uri("file:{}/a\0b"), "must be quoted", id="plain NUL"),
    pytest.param(dest_uri("file:{}/\ud800"), "surrogate", id="half a character"),
    pytest.param(dest_uri("file:{}/%ff"), "not UTF-8", id="an escape that is no UTF-8"),
    pytest.param(source_uri("file:/etc/hostname"), "not this job's", id="source outside"),
    pytest.param(source_uri("file:{}"), "not this job's", id="source is all task attempts"),
    pytest.param(source_uri("file:{}/%2e%2e"), "'..'", id="source is the job attempt"),
    pytest.param(source_uri("file:{}/../state/nonce.json"), "'..'", id="source is the record"),
    pytest.param(source_of("job_2", "00"), "not this job's", id="source of another job"),
    pytest.param(source_of("job_1", "01"), "not this job's", id="source of another job attempt"),
    pytest.param(
        field(directories=[{"d": "file:/etc/d"}]), "not a directory that", id="directory outside"
    ),
    pytest.param(
        directory_uri("file:{}/_SUCCESS"), "not a directory that", id="the marker as a directory"
    ),
    pytest.param(
        directory_uri("file:{}/_temporary/job_2"), "not a directory that", id="directory of a job"
    ),
    pytest.param(directory_uri("file:{}/p/%2e%2e"), "'..'", id="encoded dot-dot as a directory"),
]

WRONG = [
    pytest.param(field(type=MANIFEST_TYPE + "0"), "not a task manifest", id="another type"),
    pytest.param(field(files={}), "got `object`", id="files as an object"),
    pytest.param(entry(z=2**63), "<= 9223372036854775807", id="size of 2^63"),
    pytest.param(entry(z=str(2**64)), "<= 9223372036854775807", id="size of 2^64 as text"),
    pytest.param(entry(z=1e400), "not JSON", id="endless size"),
    pytest.param(entry(m=2**70), "<= 9223372036854775807", id="modified after the end of time"),
    pytest.param(field(taskAttemptID="\ud800"), "surrogate", id="half a character in an id"),
    pytest.param(field(jobId="job_2"), "belongs to job job_2", id="another job's"),
]


@pytest.mark.parametrize(("change", "text"), [*MISPLACED, *WRONG])
def test_a_hostile_manifest_is_refused_by_name_and_nothing_is_touched(
    job, dest: Path, change: Change, text: str
):
    path = spoil(job, change)
    error = refused(dest)
    assert isinstance(error, ManifestError | PathError | PreflightError)
    assert str(error).startswith(f"{path}: ")
    assert text in str(error)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"null", id="null"),
        pytest.param(b'{"files":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep arrays"),
        pytest.param(b'{"x":' * 100_000 + b"1" + b"}" * 100_000, id="deep objects"),
        pytest.param(b'{"files":[],"version":' + b"9" * 100_000 + b"}", id="a number without end"),
        pytest.param(b'{"files":[]} ' * 2 + b'{"files":', id="wrong job, then a truncated object"),
    ],
)
def test_bytes_that_are_no_manifest_are_refused_by_name_and_nothing_is_touched(
    job, dest: Path, data: bytes
):
    path = Path(job.manifest(VICTIM))
    path.write_bytes(data.replace(b'{"files":[]}', b'{"files":[],"jobId":"job_9"}'))
    assert str(refused(dest)).startswith(f"{path}: ")


def test_a_directory_in_place_of_a_manifest_is_refused_by_name(job, dest: Path):
    path = Path(job.manifest(VICTIM))
    path.unlink()
    path.mkdir()
    (path / "inside").touch()
    error = refused(dest)
    assert str(error).startswith(f"{path}: is a directory")


@pytest.mark.parametrize(
    "spelling",
    [
        "file:{}/p=1/a",
        "file:///{}/p=1/a",
        "FILE:{}/p=1/a",
        "file://localhost{}/p=1/a",
        "file:{}//p=1///a",
        "file:{}/p%3D1/a",
        "file:{}/p%3d1/%61",
        "file:{}/p=1%2Fa",
        "{}/p=1/a",
    ],
)
@pytest.mark.parametrize("task", [0, 1])
def test_one_destination_in_any_spelling_is_refused_within_and_across_tasks(
    job, dest: Path, spelling: str, task: int
):
    path = Path(job.manifest(f"task_1_m_{task:06d}"))
    content = json.loads(path.read_bytes())
    entry = next(file for file in content["files"] if not file["d"].endswith("/p=1/a"))
    entry["d"] = spelling.format(dest)
    path.write_text(json.dumps(content))
    error = refused(dest)
    assert isinstance(error, PreflightError)
    assert f"{dest}/p=1/a: would be written more than once" in str(error)
    assert f"/tasks/attempt_1_m_{task:06d}_0/" in str(error)


def large_manifest(job: JobAttempt, path: Path, size: int) -> int:
    """Write a manifest of about `size` bytes whose very last entry leads out; returns its entries."""
    source = f"file:{job.tasks}/attempt_1_m_000001_0/event_date=2026-11-22/country=DE/part-"
    dest = f"file:{job.destination}/event_date=2026-11-22/country=DE/part-"
    stamp = adopt_state(LocalStore(StoreSpec("file")), job).state.stamp
    count = 0
    with path.open("w") as file:
        file.write(f'{{"jobId": "job_1", "extraData": {{"{STAMP}": "{stamp}"}}, "files": [')
        while file.tell() < size:
            numbers = range(count, count := count + 10_000)
            file.write("".join(f'{{"s":"{source}{n}","d":"{dest}{n}","z":{n}}},' for n in numbers))
        file.write(f'{{"s": "{source}{count}", "d": "file:/etc/passwd", "z": 1}}]}}')
    return count + 1


COMMIT = """
import re, sys
from pathlib import Path
from ray_committer.cli.main import main
try:
    main(["commit", sys.argv[1], "--job-id", "job_1", "--assume-complete"])
finally:
    # Not ru_maxrss, which counts the process that started this one, too.
    status = Path("/proc/self/status").read_text()
    print("PEAK", re.search(r"VmHWM:\\s*(\\d+)", status)[1], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_manifest_of_100_megabytes_is_refused_in_bounded_time_and_memory(job, dest: Path):
    path = Path(job.manifest(VICTIM))
    assert large_manifest(job, path, 100 * MEGABYTE) > 250_000
    assert path.stat().st_size > 100 * MEGABYTE
    before = set(dest.rglob("*"))
    result = subprocess.run(
        [sys.executable, "-c", COMMIT, str(dest)], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 1, result.stderr
    assert f"{path}: /etc/passwd: is outside the destination" in result.stderr
    peak = int(result.stderr.rpartition("PEAK")[2]) * 1024
    assert peak < 6 * path.stat().st_size
    assert set(dest.rglob("*")) == before
