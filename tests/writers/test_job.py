"""A job of Arrow tasks: each row once, whatever attempts there were and whoever dies when."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions, CommittedTask, ConflictMode, Outcome
from ray_committer.cli.main import main
from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    IncompleteJobError,
    TaskCommitError,
)
from ray_committer.protocol.paths import MARK, new_job_attempt
from ray_committer.protocol.staging import token_of
from ray_committer.testing import SimulatedCrash, StoreCall
from ray_committer.writers import job as arrow_job
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import ArrowJob, WriteMode, write_mode
from tests.opening import opening

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])


def table(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [one % 2 for one in ids]}, SCHEMA)


def ids(dest: Path) -> list[int]:
    found = pyarrow.dataset.dataset(dest, partitioning="hive").to_table(columns=["id"])
    return sorted(found.column("id").to_pylist())


@pytest.fixture
def start(dest: Path) -> Callable[..., ArrowJob]:
    def start(mode: str = "append", **values: object) -> ArrowJob | None:
        layout = FileLayout("parquet", ("p",))
        options = CommitOptions()
        return arrow_job.start(
            str(dest), layout, mode=write_mode(mode, layout), options=options, **values
        )

    return start


def commit(job: ArrowJob, *results: CommittedTask | None) -> ray_committer.CommitReport | None:
    return arrow_job.commit(job, results, executor="inline")


def test_the_rows_of_all_tasks_arrive_and_nothing_is_visible_before(start, dest: Path):
    job = start()
    results = [arrow_job.write_attempt(job, task, [table(task, task + 10)]) for task in range(3)]
    assert [path.name for path in dest.iterdir()] == ["_temporary"]
    report = commit(job, *results)
    assert (report.outcome, report.manifests, report.moved) == (Outcome.COMMITTED, 3, 3)
    assert ids(dest) == [0, 1, 2, 10, 11, 12]
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize("winner", [0, 1])
def test_of_two_committed_attempts_of_a_task_the_named_one_counts(start, dest: Path, winner: int):
    job = start()
    attempts = [arrow_job.write_attempt(job, 0, [table(number)]) for number in (100, 200)]
    other = arrow_job.write_attempt(job, 1, [table(1)])
    assert commit(job, attempts[winner], other).manifests == 2
    assert ids(dest) == sorted([1, [100, 200][winner]])
    assert not (dest / "_temporary").exists()


def test_a_result_without_a_name_stops_the_commit(start, dest: Path):
    job = start()
    with pytest.raises(IncompleteJobError, match="1 of 2 write tasks did not return"):
        commit(job, arrow_job.write_attempt(job, 0, [table(1)]), None)
    assert not list(dest.glob("p=*"))


def test_a_failed_attempt_leaves_nothing_and_the_next_one_counts(start, dest: Path):
    job = start()

    def broken() -> Iterator[pa.Table]:
        yield table(1, 2)
        raise RuntimeError("simulated failure of a task")

    with pytest.raises(RuntimeError, match="simulated"):
        arrow_job.write_attempt(job, 0, broken())
    attempt = new_job_attempt(str(dest), job.job_id, 0)
    assert [path for path in Path(attempt.tasks).rglob("*") if not path.is_dir()] == []
    commit(job, arrow_job.write_attempt(job, 0, [table(1, 2)]))
    assert ids(dest) == [1, 2]


def test_an_attempt_that_wakes_after_the_abort_brings_nothing_back(start, dest: Path):
    job = start()

    def aborted() -> Iterator[pa.Table]:
        assert arrow_job.abort(job)
        yield table(1)

    with pytest.raises(TaskCommitError, match="was aborted"):
        arrow_job.write_attempt(job, 0, aborted())
    with pytest.raises(TaskCommitError, match="is not a job that was set up"):
        arrow_job.write_attempt(job, 0, [table(1)])
    assert not (dest / "_temporary").exists()


def test_a_failing_block_aborts_and_says_what_it_said(start, dest: Path):
    job = start("overwrite")
    arrow_job.write_attempt(job, 0, [table(1)])
    with pytest.raises(KeyboardInterrupt), arrow_job.aborted_on_failure(job):
        raise KeyboardInterrupt
    assert not (dest / "_temporary").exists()


def test_an_abort_after_the_record_deletes_nothing_and_the_command_finishes(start, dest: Path):
    commit(first := start(), arrow_job.write_attempt(first, 0, [table(7)]))
    job = start("overwrite")
    results = (arrow_job.write_attempt(job, 0, [table(1)]), arrow_job.write_attempt(job, 0, [table(1)]))
    options = CommitOptions(
        mode=ConflictMode.OVERWRITE,
        committed_tasks=(results[0],),
        ignore_other_attempts=True,
    )
    ray_committer.record_job(str(dest), job.job_id, executor="inline", options=options)
    error = RuntimeError("the commit failed")
    assert not arrow_job.abort(job, error)
    assert "ray-committer commit" in error.__notes__[0]
    with pytest.raises(CommitRecordExistsError):
        ray_committer.abort_job(str(dest), job.job_id)
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0, result.output
    assert ids(dest) == [1]
    assert not (dest / "_temporary").exists()


DRIVER = """
import os, sys
import ray_committer
from ray_committer.writers import job as arrow_job
from tests.writers.test_job import table
from ray_committer.writers.files import FileLayout
from ray_committer.events import StageStarted

def die(event):
    if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
        os._exit(9)

layout = FileLayout("parquet", ("p",))
mode = arrow_job.WriteMode.APPEND
job = arrow_job.start(sys.argv[1], layout, mode=mode, options=ray_committer.CommitOptions())
results = [arrow_job.write_attempt(job, task, [table(task)]) for task in (0, 1, 1)]
commit = arrow_job.commit_job
arrow_job.commit_job = lambda *args, **named: commit(*args, **named, on_event=die)
arrow_job.commit(job, results[:2], executor="inline")
"""


def test_a_driver_that_dies_after_the_record_is_finished_by_the_command(dest: Path):
    died = subprocess.run([sys.executable, "-c", DRIVER, str(dest)], check=False)
    assert died.returncode == 9
    assert not list(dest.glob("p=*/*"))
    assert CliRunner().invoke(main, ["commit", str(dest)]).exit_code == 0
    assert ids(dest) == [0, 1]
    assert not (dest / "_temporary").exists()


def test_a_mode_says_what_becomes_of_the_data_that_is_there(start, dest: Path):
    commit(job := start("error"), arrow_job.write_attempt(job, 0, [table(1)]))
    commit(job := start(), arrow_job.write_attempt(job, 0, [table(2)]))
    assert ids(dest) == [1, 2]
    with pytest.raises(CommitConflictError, match="holds data already"):
        start("error")
    assert start("ignore") is None
    assert not (dest / "_temporary").exists()
    commit(job := start("overwrite"), arrow_job.write_attempt(job, 0, [table(3)]))
    assert ids(dest) == [3]
    with pytest.raises(ValueError, match=r"mode 'keep': is not one of append, error, error_"):
        start("keep")


def test_data_that_came_while_the_tasks_ran_is_found_by_mode_error(start, dest: Path):
    job, other = start("error"), start("error")
    result = arrow_job.write_attempt(job, 0, [table(1)])
    commit(other, arrow_job.write_attempt(other, 0, [table(2)]))
    with pytest.raises(CommitConflictError, match="holds data already"):
        commit(job, result)
    assert ids(dest) == [2]


def test_mode_ignore_gives_way_to_data_that_came_while_the_tasks_ran(start, dest: Path):
    job, other = start("ignore"), start("ignore")
    result = arrow_job.write_attempt(job, 0, [table(1)])
    assert commit(other, arrow_job.write_attempt(other, 0, [table(2)])) is not None
    assert commit(job, result) is None
    assert ids(dest) == [2]
    assert not (dest / "_temporary").exists()


def test_mode_ignore_hides_no_other_conflict(start, dest: Path):
    commit(job := start("ignore"), arrow_job.write_attempt(job, 0, [table(1)]))
    other = start("overwrite")
    options = CommitOptions(
        mode=ConflictMode.OVERWRITE,
        committed_tasks=(arrow_job.write_attempt(other, 0, [table(2)]),),
    )
    for path in dest.glob("p=*/*"):
        path.unlink()
        path.parent.rmdir()
    job = start("ignore")
    result = arrow_job.write_attempt(job, 0, [table(3)])
    ray_committer.record_job(str(dest), other.job_id, executor="inline", options=options)
    with pytest.raises(CommitConflictError, match="ray-committer commit"):
        commit(job, result)
    assert not list(dest.glob("p=*"))


def test_an_overwrite_of_partitions_without_rows_replaces_nothing(start, dest: Path):
    commit(job := start(), arrow_job.write_attempt(job, 0, [table(1, 2)]))
    commit(job := start("overwrite_partitions"), arrow_job.write_attempt(job, 0, []))
    commit(start("overwrite_partitions"))
    assert ids(dest) == [1, 2]


@pytest.mark.parametrize("mode", ["error", "error_partitions"])
def test_a_write_that_wants_no_data_there_and_whose_driver_died_is_no_append(
    start, dest: Path, mode: str
):
    arrow_job.write_attempt(start(mode), 0, [table(3)])
    (dest / "p=1").mkdir()
    (dest / "p=1" / "old").touch()
    command = ["commit", str(dest), "--assume-complete"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "was not to be committed where there is data" in result.output
    assert CliRunner().invoke(main, [*command, "--mode", mode]).exit_code == 4
    assert [path.name for path in dest.glob("p=*/*")] == ["old"]


@pytest.mark.parametrize("mode", ["error_partitions", "overwrite_partitions"])
def test_a_mode_of_partitions_needs_partitions(mode: str):
    with pytest.raises(ValueError, match=f"mode '{mode}': needs partition_by"):
        write_mode(mode, FileLayout("parquet"))


def test_an_overwrite_of_partitions_whose_driver_died_is_committed_as_such(start, dest: Path):
    commit(job := start(), arrow_job.write_attempt(job, 0, [table(1, 2)]))
    arrow_job.write_attempt(start("overwrite_partitions"), 0, [table(3)])
    command = ["commit", str(dest), "--assume-complete"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "OVERWRITE_PARTITIONS" in result.output
    assert CliRunner().invoke(main, [*command, "--mode", "overwrite_partitions"]).exit_code == 0
    assert ids(dest) == [2, 3]


@pytest.mark.parametrize("named", [str, Path.as_uri])
def test_partitions_with_odd_names_are_overwritten_at_a_path_and_at_a_url(
    tmp_path: Path, named: Callable[[Path], str]
):
    dest = tmp_path / "ta ble %41"
    layout = FileLayout("parquet", ("p",))
    for mode, number in ((WriteMode.APPEND, 1), (WriteMode.OVERWRITE_PARTITIONS, 2)):
        job = arrow_job.start(named(dest), layout, mode=mode, options=CommitOptions())
        rows = pa.table({"id": [number, number], "p": ["a b%/é", None]})
        commit(job, arrow_job.write_attempt(job, 0, [rows]))
    assert ids(dest) == [2, 2]


def test_no_result_at_all_is_an_empty_output(start, dest: Path):
    commit(job := start(), arrow_job.write_attempt(job, 0, [table(1)]))
    assert commit(start("overwrite")).files == 0
    assert (dest / "_SUCCESS").is_file()
    assert not list(dest.glob("p=*/*"))


def test_a_durable_job_forces_its_files_to_disk(dest: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[Path] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink())
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    for durable in (False, True):
        options = CommitOptions(durable=durable)
        layout = FileLayout("parquet", ("p",))
        job = arrow_job.start(str(dest), layout, mode=WriteMode.APPEND, options=options)
        arrow_job.write_attempt(job, 0, [table(1, 2)])
        data = [path.parent.parent.name for path in synced if path.suffix == ".parquet"]
        assert data == (["in", "in"] if durable else [])


def test_a_token_is_not_shown():
    layout = FileLayout("parquet")
    job = ArrowJob("/t", "job_1", layout, WriteMode.APPEND, CommitOptions(), {"token": "secret"})
    assert "secret" not in repr(job)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path):
    (tmp_path / "pyarrow.py").write_text("raise ImportError('none', name='pyarrow')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ray_committer.writers.job"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pyarrow is not installed; to write with Arrow, install ray-committer[arrow]" in failed.stderr


SPELLINGS = {
    "other Java": (pa.array([2e23]), "p=1.9999999999999998E23", "p=2.0E23"),
    "ANSI mode": (pa.array(["0.00000010"]).cast(pa.decimal128(10, 8)), "p=1.0E-7", "p=0.00000010"),
}


def overwrite_partition(dest: Path, value: pa.Array, mode: str = "overwrite_partitions") -> None:
    layout = FileLayout("parquet", ("p",))
    job = arrow_job.start(str(dest), layout, mode=write_mode(mode, layout), options=CommitOptions())
    assert job is not None
    with arrow_job.aborted_on_failure(job):
        rows = pa.table({"id": [9], "p": value})
        assert commit(job, arrow_job.write_attempt(job, 0, [rows, rows])) is not None


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("standing", [0, 1])
def test_a_partition_is_replaced_in_the_directory_that_stands_there(
    dest: Path, name: str, standing: int
):
    value, *spellings = SPELLINGS[name]
    (dest / spellings[standing]).mkdir(parents=True)
    (dest / spellings[standing] / "part-old.parquet").write_bytes(b"old")
    overwrite_partition(dest, value)
    assert [path.name for path in dest.iterdir() if "=" in path.name] == [spellings[standing]]
    assert not (dest / spellings[standing] / "part-old.parquet").exists()


@pytest.mark.parametrize("name", SPELLINGS)
def test_of_two_directories_of_one_partition_none_is_replaced(dest: Path, name: str):
    value, *spellings = SPELLINGS[name]
    for one in spellings:
        (dest / one).mkdir(parents=True)
        (dest / one / "part-old.parquet").write_bytes(b"old")
    with pytest.raises(CommitConflictError, match="are two directories of one partition"):
        overwrite_partition(dest, value)
    assert sorted(one.name for one in dest.rglob("*") if one.is_file()) == ["part-old.parquet"] * 2
    overwrite_partition(dest, value, "append")
    assert len(list((dest / spellings[0]).iterdir())) == 2


# Where tasks write


def staged(dest: Path, job: ArrowJob) -> dict[str, list[str]]:
    """The names of the staged files, by their directories below ``tasks``."""
    tasks = Path(new_job_attempt(str(dest), job.job_id, 0).tasks)
    found: dict[str, list[str]] = {}
    for path in sorted(path for path in tasks.rglob("*") if path.is_file()):
        found.setdefault(str(path.parent.relative_to(tasks)), []).append(path.name)
    return found


def test_all_tasks_write_side_by_side_and_the_names_are_final(start, dest: Path):
    job = start()
    results = [arrow_job.write_attempt(job, task, [table(0, 1)]) for task in range(3)]
    files = staged(dest, job)
    assert [directory.partition("/")[0] for directory in files] == ["in", "in"]
    tokens = [token_of(str(result.task_attempt_id)) for result in results]
    for names in files.values():
        assert [name.rpartition("-c")[0] for name in names] == [
            f"part-{task:05d}-{job.job_id}-{token}" for task, token in enumerate(tokens)
        ]
    commit(job, *results)
    moved = {path.name for path in dest.rglob("*.parquet")}
    assert moved == {name for names in files.values() for name in names}


def test_files_without_partitions_are_apart_by_their_tasks(dest: Path):
    job = arrow_job.start(
        str(dest), FileLayout("parquet"), mode=WriteMode.APPEND, options=CommitOptions()
    )
    results = [arrow_job.write_attempt(job, task, [table(task)]) for task in (0, 1, 64)]
    assert {directory: len(names) for directory, names in staged(dest, job).items()} == {
        "root/00": 2,
        "root/01": 1,
    }
    commit(job, *results)
    assert ids(dest) == [0, 1, 64]


@pytest.mark.parametrize(
    "values",
    [("A", "a"), ("\u00e9", "e\u0301"), ("a%3Ab", "a:b"), ("100%", "100%25"), ("a b", "a%20b")],
)
def test_values_that_could_be_taken_for_one_another_stay_apart(dest: Path, values: tuple[str, str]):
    rows = pa.table({"id": [0, 1], "v": list(values)})
    layout = FileLayout("parquet", ("v",))
    job = arrow_job.start(str(dest), layout, mode=WriteMode.APPEND, options=CommitOptions())
    result = arrow_job.write_attempt(job, 0, [rows])
    assert len(staged(dest, job)) == 2
    commit(job, result)
    found = pyarrow.dataset.dataset(dest, partitioning="hive").to_table(columns=["id", "v"])
    assert sorted(found.to_pydict()["v"]) == sorted(values)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [SimulatedCrash, TimeoutError])
def test_an_attempt_that_fails_while_it_saves_its_manifest_deletes_nothing(
    start, dest: Path, when: str, error: type[BaseException], no_pauses
):
    """Its manifest may be there although it got no answer, so its files may count."""
    job = start()

    def fail(call: StoreCall) -> None:
        if call.operation == "replace" and call.paths[-1].endswith("-manifest.json"):
            raise error("simulated")

    hooks: dict[str, Callable[[StoreCall], None]] = {when: fail}
    with opening(**hooks), pytest.raises((error, TaskCommitError)):
        arrow_job.write_attempt(job, 0, [table(1, 2)])
    assert sum(map(len, staged(dest, job).values())) == 2
    is_saved = any(Path(new_job_attempt(str(dest), job.job_id, 0).manifests).glob("*-manifest.json"))
    assert is_saved is (when == "after")
    result = arrow_job.write_attempt(job, 0, [table(3)])
    commit(job, result)
    assert ids(dest) == [3]


@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_an_attempt_costs_three_requests_for_each_directory_and_five_more(dest: Path, partitions: int):
    """To make it and to look whether the job is still there, and to look at the file in it."""
    layout = FileLayout("parquet", ("p",))
    job = arrow_job.start(str(dest), layout, mode=WriteMode.APPEND, options=CommitOptions())
    rows = pa.table({"id": list(range(40)), "p": [one % partitions for one in range(40)]})
    calls: list[str] = []
    with opening(before=lambda call: calls.append(call.operation)):
        arrow_job.write_attempt(job, 0, [rows])
    assert Counter(calls) == Counter(
        read_state=3 + partitions, mkdirs=partitions, get_status=partitions, write=1, replace=1
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("closed", ["in", "in/*"])
def test_where_another_user_made_the_directory_an_attempt_keeps_its_files_to_itself(
    open_dest: Path, closed: str
):
    layout = FileLayout("parquet", ("p",))
    job = arrow_job.start(str(open_dest), layout, mode=WriteMode.APPEND, options=CommitOptions())
    first = arrow_job.write_attempt(job, 0, [table(1, 2)])
    where = new_job_attempt(str(open_dest), job.job_id, 0)
    for path in (where.tasks, where.manifests, f"{where.tasks}/in"):
        Path(path).chmod(0o777)
    if closed == "in":
        (mark,) = Path(f"{where.tasks}/in").glob(f"{MARK}*")
        shutil.rmtree(f"{where.tasks}/in")
        mark.mkdir(parents=True)
        first = arrow_job.write_attempt(job, 0, [table(2)])
    os.seteuid(65534)
    try:
        second = arrow_job.write_attempt(job, 1, [table(3, 4)])
    finally:
        os.seteuid(0)
    own = {directory for directory in staged(open_dest, job) if not directory.startswith("in/")}
    assert own == {f"{second.task_attempt_id}/p={value}" for value in (0, 1)}
    commit(job, first, second)
    assert ids(open_dest) == ([1] if closed == "in/*" else []) + [2, 3, 4]
