"""Thirteen defects of Hadoop 3.5's manifest committer, each with a test that fails where it is.

The numbers are those of `docs/conformance.md`, which says what each one is.
"""

from __future__ import annotations

import gc
import json
import re
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier, Timer
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    PreflightError,
    RayCommitterError,
    TaskCommitError,
    ValidationError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.protocol import uri
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import decode_success
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore, run_commit
from ray_committer.work import entries as stage_entries
from ray_committer.work.worker import Worker
from tests.doubles import phase_of
from tests.imagined_jobs import IdleStore, imagine

PROTOCOL_PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


class ForgetfulExecutor(InlineExecutor):
    """Runs all work but the last item of several, and says nothing, as a queue that was cut short."""

    def run(self, work: Any, items: Iterable[Any]) -> Iterator[Any]:
        listed = list(items)
        return super().run(work, listed[:-1] if len(listed) > 1 else listed)


CACHED = [
    function
    for module in (stage_entries, uri)
    for function in vars(module).values()
    if hasattr(function, "cache_clear")
]


def test_b01_a_list_of_files_that_was_cut_short_is_no_success(store, write_job, dest: Path, tree):
    files = {f"f{number:03d}": "x" for number in range(40)}
    job = write_job({0: files})
    lossy = ForgetfulExecutor(lambda permits: Worker(store, job, permits, in_driver=True))
    with pytest.raises(CommitStateUnknownError, match=r"names 40 files, but \d+ were moved"):
        run_commit(store, job, CommitOptions(shard_files=10), executor=lossy)
    assert not (dest / "_SUCCESS").exists()
    assert len(tree()) + len(list(Path(job.tasks).rglob("f*"))) == 40
    ray_committer.commit_job(str(dest))
    assert tree() == files


@pytest.mark.parametrize(("attempts", "saved"), [(1, False), (2, True)])
def test_b02_the_number_of_tries_to_save_a_manifest_is_the_one_asked_for(
    write_job, dest: Path, attempts: int, saved: bool
):
    """Something is in the way of the first try; with a second one, it goes away before that."""
    job = write_job({})
    blocked = Path(job.manifest_temporary("attempt_1_m_000000_0"))
    blocked.mkdir()
    options = CommitOptions(manifest_save_attempts=attempts)
    outcome = nullcontext() if saved else pytest.raises(TaskCommitError, match="in 1 tries")
    unblock = Timer(0.2, blocked.rmdir)
    with outcome, ray_committer.task_attempt(str(dest), "job_1", 0, options=options):
        if saved:
            unblock.start()
    assert Path(job.manifest("task_1_m_000000")).is_file() is saved
    if saved:
        unblock.join()


@pytest.mark.parametrize("fails", ["load", "rename", "nothing"])
def test_b03_a_commit_leaves_no_temporary_file_wherever_it_fails(
    store, write_job, dest: Path, tmp_path: Path, monkeypatch, fails: str
):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    if fails == "load":
        Path(job.manifest("task_1_m_000001")).write_bytes(b"{")
    if fails == "rename":
        (dest / "b").write_text("in the way")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(scratch)
    made: set[str] = set()

    def look(call: StoreCall) -> None:
        made.update(path.name for path in scratch.iterdir())

    try:
        run_commit(WrappedStore(store, before=look, after=look), job)
        assert fails == "nothing"
    except RayCommitterError:
        assert fails != "nothing"
    look(StoreCall("the end", ()))
    assert made == set()
    assert not [path for path in dest.rglob("*.tmp") if path.is_file()]


def test_b04_what_a_commit_writes_does_not_grow_with_its_files(tmp_path: Path):
    """Hadoop's driver writes every entry to a compressed file with one thread, and reads it again."""
    written: dict[int, Counter[str]] = {}
    for files in (100, 2000):
        dest = tmp_path / f"table-of-{files:04d}"
        ray_committer.setup_job(str(dest), "job_1")
        job = new_job_attempt(str(dest), "job_1", 0)
        imagine(job, tasks=2, files=files)
        sizes = written[files] = Counter()

        def note(call: StoreCall, data: bytes, sizes: Counter[str] = sizes) -> bytes:
            sizes["writes"] += 1
            sizes["bytes"] += len(data)
            return data

        idle = WrappedStore(IdleStore(), write_data=note)
        assert run_commit(idle, job, CommitOptions(validate=False)).moved == 2 * files
    assert written[2000]["writes"] == written[100]["writes"] == 3  # declaration, record, _SUCCESS
    assert abs(written[2000]["bytes"] - written[100]["bytes"]) < 100


def peak_of_a_commit(dest: Path, tasks: int) -> tuple[int, int]:
    """The peak of the memory of a commit, and the size of the manifests, in bytes."""
    ray_committer.setup_job(str(dest), "job_1")
    job = new_job_attempt(str(dest), "job_1", 0)
    imagine(job, tasks=tasks, files=200)
    manifest_bytes = sum(path.stat().st_size for path in Path(job.manifests).iterdir())
    for cached in CACHED:  # what they hold is bounded
        cached.cache_clear()
    gc.collect()
    tracemalloc.start()
    try:
        run_commit(IdleStore(), job, CommitOptions(validate=False))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, manifest_bytes


@pytest.mark.slow
def test_b05_a_commit_holds_no_object_for_each_file(tmp_path: Path):
    """Beside the bytes of the manifests, which a cache of fixed size keeps, a few bytes a file.

    In a process of its own: threads that another test has left would be counted, too.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        tasks = (2, 60, 160)  # the first commit warms up, the second fills a cache of parsed manifests
        measured = process.map(peak_of_a_commit, (tmp_path / f"{count}" for count in tasks), tasks)
        _, (few, few_bytes), (many, many_bytes) = measured
    more_tasks, more_files = 100, 100 * 200
    assert many - few - (many_bytes - few_bytes) < more_files * 40 + more_tasks * 4000


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_b06_two_tasks_with_one_destination_are_refused(write_job, dest: Path, tree, executor):
    job = write_job({0: {"p=1/a": "x"}, 1: {"p=1/b": "y"}, 2: {"p=1/a": "z"}})
    with pytest.raises(PreflightError, match=r"p=1/a.*task_1_m_000000.*task_1_m_000002"):
        ray_committer.commit_job(str(dest), executor=executor)
    assert tree() == {}
    assert len([path for path in Path(job.tasks).rglob("*") if path.is_file()]) == 3


def test_b07_validation_comes_before_the_marker_and_the_clean_up(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x", "b": "y"}})

    def spoil(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/a"):
            Path(call.paths[1]).write_text("another text")

    with pytest.raises(ValidationError, match="a: has 12 bytes"):
        run_commit(WrappedStore(store, after=spoil), job, CommitOptions(validate=True))
    assert not (dest / "_SUCCESS").exists()
    assert phase_of(store, job) is Phase.RECORDED
    assert Path(job.frozen).is_dir()
    assert Path(job.tasks).is_dir()


def test_b07_a_clean_up_that_fails_does_not_fail_the_job(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})

    def fail(call: StoreCall) -> None:
        if call.operation in ("delete_directory", "remove_empty_directory"):
            raise PermissionError(13, "Simulated failure of delete")

    assert run_commit(WrappedStore(store, before=fail), job).outcome is Outcome.COMMITTED
    assert (dest / "_SUCCESS").is_file()


def test_b08_a_commit_that_stopped_is_recorded_kept_and_finished(store, write_job, dest: Path, tree):
    files = {f"f{number}": "x" for number in range(9)}
    job = write_job({0: files})

    def fail(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/f5"):
            raise PermissionError(13, "simulated")

    with pytest.raises(CommitStateUnknownError):
        run_commit(WrappedStore(store, before=fail), job)
    assert 0 < len(tree()) < 9
    with pytest.raises(CommitRecordExistsError):
        ray_committer.abort_job(str(dest))
    report = ray_committer.commit_job(str(dest))
    assert (report.resumed, report.files) == (True, 9)
    assert tree() == files


def at_once(store: LocalStore, operation: str, names: tuple[str, ...], parties: int) -> StoreOperations:
    """A store whose `operation` on what is so called goes on only when that many are under way."""
    barrier = Barrier(parties, timeout=20)

    def wait(call: StoreCall) -> None:
        if call.operation == operation and call.paths[0].endswith(names):
            barrier.wait()

    return WrappedStore(store, before=wait)


@pytest.mark.parametrize("operation", ["read", "mkdirs"])
def test_b09_no_lock_is_held_while_manifests_are_read_or_directories_made(
    store, write_job, tree, operation: str
):
    files = {task: {f"p={task}/f": "x"} for task in range(8)}
    job = write_job(files)
    names = ("-manifest.json",) if operation == "read" else tuple(f"/p={task}" for task in files)
    slow = at_once(store, operation, names, 4)
    executor = ThreadsExecutor(lambda permits: Worker(slow, job, permits, in_driver=True), threads=4)
    try:
        assert run_commit(slow, job, executor=executor).moved == 8
    finally:
        executor.close()


def test_b09_tasks_that_disagree_about_a_directory_make_it_once(store, write_job, dest: Path, tree):
    job = write_job({task: {"p=1/q=1/f" + str(task): "x"} for task in range(5)})
    for task in range(5):
        path = Path(job.manifest(f"task_1_m_{task:06d}"))
        content = json.loads(path.read_bytes())
        for directory in content["directories"]:
            directory["t"] = task
        path.write_text(json.dumps(content))
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    assert [call.paths[0] for call in calls if call.operation == "mkdirs"] == [f"{dest}/p=1/q=1"]
    assert len(tree()) == 5


def test_b10_a_name_with_a_colon_is_committed(write_job, dest: Path, tree):
    files = {"a:b/f": "1", "d/12:30.txt": "2", "k=a:b/f": "3", ":": "4", "file:/f": "5"}
    write_job({0: files})
    assert ray_committer.commit_job(str(dest)).files == 5
    assert tree() == files


def test_b11_what_tasks_counted_is_added_up_once(store, write_job, dest: Path):
    job = write_job({task: {f"p={task}/f{n}": "xx" for n in range(5)} for task in range(3)})
    counted = {"committer_task_file_count": 5, "committer_task_directory_count": 2}
    for task in range(3):
        path = Path(job.manifest(f"task_1_m_{task:06d}"))
        content = json.loads(path.read_bytes())
        means = {name: {"samples": 1, "sum": value} for name, value in counted.items()}
        content["iostatistics"] = {"counters": counted, "meanstatistics": means}
        path.write_text(json.dumps(content))
    run_commit(store, job)
    success = decode_success((dest / "_SUCCESS").read_bytes(), "_SUCCESS")
    assert success is not None
    assert success.iostatistics is not None
    counters = success.iostatistics.counters
    assert counters["committer_task_file_count"] == 15
    assert counters["committer_task_directory_count"] == 6
    assert counters["committer_files_committed"] == 15
    assert counters["committer_bytes_committed"] == 30
    assert success.iostatistics.meanstatistics["committer_task_file_count"].samples == 3


def numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    else:
        yield value


MEASURED = {
    "committer_task_directory_count",
    "committer_task_file_count",
    "committer_task_file_size",
    "task_stage_commit",
    "task_stage_setup",
}


def test_b12_a_manifest_carries_no_statistics_that_nobody_measured(write_job, dest: Path):
    job = write_job({0: {}, 1: {"a": "x"}})
    for path in Path(job.manifests).iterdir():
        content = json.loads(path.read_bytes())
        assert -1 not in numbers(content["iostatistics"])
        assert content["iostatistics"]["counters"].keys() == MEASURED
        assert path.stat().st_size < 1300 + 3 * len(str(dest))


def documented_names() -> dict[str, re.Pattern[str]]:
    """The first column of the table of files, below the job attempt's directory; as patterns."""
    table = PROTOCOL_PAGE.read_text().partition("\n## ")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    below = [name for name in rows if not name.startswith("$dest/")]
    return {name: re.compile(_pattern(name)) for name in below}


def _pattern(name: str) -> str:
    """A pattern for a name with ``$variables`` and stars, or for all that is in a directory."""
    inside = ".+" if name.endswith("/") else ""
    return re.sub(r"\\\$\w+|\\\*", "[^/]+", re.escape(name)) + inside


def test_b13_the_documented_names_are_those_on_disk(store, dest: Path):
    overwrite = CommitOptions(mode=ConflictMode.OVERWRITE, cleanup=False)
    dest.mkdir(exist_ok=True)
    (dest / "old").write_text("x")
    ray_committer.setup_job(str(dest), "job_1", options=overwrite)
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("a")).write_text("x")
    page = PROTOCOL_PAGE.read_text()
    assert "`$dest/_temporary/$jobId/%02d/`" in page
    directory = dest / "_temporary" / "job_1" / f"{0:02d}"
    seen: set[str] = set()

    def look(call: StoreCall) -> None:
        files = [path for path in directory.rglob("*") if path.is_file()]
        seen.update(str(path.relative_to(directory)) for path in files)

    job = new_job_attempt(str(dest), "job_1", 0)
    run_commit(WrappedStore(store, before=look, after=look), job, overwrite)
    own = {name for name in seen if not name.endswith(".tmp")}
    documented = documented_names()
    for name in own:
        assert any(pattern.fullmatch(name) for pattern in documented.values()), name
    elsewhere = {"state/heartbeat.json", "undone/"}  # of a long commit, and of one that is given up
    for name, pattern in documented.items():
        assert name in elsewhere or any(map(pattern.fullmatch, own)), name
    assert (dest / "_SUCCESS").is_file()
