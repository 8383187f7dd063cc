"""Ray Data's writes on a cluster of three raylets: each row once, or nothing."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import ray.data
from click.testing import CliRunner
from ray.data import SaveMode
from ray.data.checkpoint import CheckpointConfig
from ray.data.expressions import col

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.cli.main import main
from ray_committer.errors import CommitCancelledError, CommitConflictError
from ray_committer.events import StageStarted
from ray_committer.writers.ray_data import ManifestDatasink

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
    # Ray Data's own, of its own settings.
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]

ODD = ["plain", "a b", "50%", "x:y=z", "日本 é", None, "a/b", "😀\"'"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", "1")  # processes that each read starts
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    yield
    context.checkpoint_config = None


def dataset(rows: int = 40, *, blocks: int = 4) -> ray.data.Dataset:
    table = pa.table({"id": range(rows), "p": [ODD[number % len(ODD)] for number in range(rows)]})
    return ray.data.from_arrow(table).repartition(blocks).materialize()


def rows(dest: Path, kind: str = "parquet") -> list[dict[str, Any]]:
    """What is there by pyarrow's own reader."""
    found = pyarrow.dataset.dataset(dest, format=kind, partitioning="hive").to_table()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def ids(dest: Path) -> list[int]:
    return [row["id"] for row in rows(dest)]


def nothing_is_left(dest: Path) -> bool:
    return not (dest / "_temporary").exists() and not list(dest.rglob("part-*"))


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(one, marks=pytest.mark.wide) for one in ("csv", "json"))]
)
def test_odd_partitions_are_read_back_equal(dest: Path, kind: str):
    sink = ManifestDatasink(str(dest), kind, partition_by=["p"])
    dataset().write_datasink(sink)
    assert sink.report is not None
    assert (sink.report.outcome, sink.report.manifests) == (Outcome.COMMITTED, 4)
    assert sink.report.moved == len(list(dest.rglob(f"part-*.{kind}")))
    expected = [{"id": number, "p": ODD[number % len(ODD)]} for number in range(40)]
    assert rows(dest, kind) == expected
    if kind == "parquet":
        partitioning = ray.data.datasource.Partitioning("hive")
        read = ray.data.read_parquet(str(dest), partitioning=partitioning).take_all()
        found = {row["id"]: row["p"] for row in read}
        null = "__HIVE_DEFAULT_PARTITION__"  # Ray Data's reader does not take it for a null
        assert found == {row["id"]: row["p"] or null for row in expected}


def test_each_mode_of_ray_datas_is_one_here(dest: Path):
    for mode, rows, expected in (
        (SaveMode.CREATE, 8, [*range(8)]),
        (SaveMode.APPEND, 8, sorted([*range(8), *range(8)])),
        (SaveMode.OVERWRITE, 3, [0, 1, 2]),
        (SaveMode.IGNORE, 8, [0, 1, 2]),
    ):
        dataset(rows).write_datasink(ManifestDatasink(str(dest), partition_by="p", mode=mode))
        assert ids(dest) == expected
    for mode in (SaveMode.CREATE, SaveMode.ERROR):
        with pytest.raises(CommitConflictError, match="holds data already"):
            dataset(3).write_datasink(ManifestDatasink(str(dest), mode=mode))
    assert ids(dest) == [0, 1, 2]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"min_rows_per_file": 30}, [10, 30, 30, 30]),
        ({"min_bytes_per_file": 240}, [10, 30, 30, 30]),
        ({"max_rows_per_file": 7}, [3] * 10 + [7] * 10),
        ({"min_rows_per_file": 30, "max_rows_per_file": 35}, [10, 30, 30, 30]),
    ],
)
def test_files_have_as_many_rows(dest: Path, options: dict[str, int], rows: list[int]):
    blocks_of_ten = ray.data.range(100, override_num_blocks=10).materialize()
    blocks_of_ten.write_datasink(ManifestDatasink(str(dest), **options))
    files = dest.rglob("part-*")
    assert sorted(pyarrow.parquet.read_metadata(path).num_rows for path in files) == rows


def test_mode_ignore_writes_only_where_there_is_no_data(dest: Path):
    sink = ManifestDatasink(str(dest), partition_by="p", mode="ignore")
    dataset(8).write_datasink(sink)
    assert sink.report is not None
    dataset(3).write_datasink(sink)
    assert sink.report is None
    ray.data.from_arrow([pa.table({"id": [1], "p": ["a"]}).slice(0, 0)]).write_datasink(sink)
    assert sink.report is None
    assert ids(dest) == list(range(8))
    assert not (dest / "_temporary").exists()


def test_an_overwrite_of_partitions_replaces_those_that_it_writes_to(dest: Path):
    dataset().write_datasink(ManifestDatasink(str(dest), partition_by="p"))
    sink = ManifestDatasink(str(dest), partition_by="p", mode="overwrite_partitions")
    dataset().filter(expr=col("id") < 2).write_datasink(sink)  # of "plain" and of "a b"
    assert ids(dest) == [0, 1, *(number for number in range(40) if number % len(ODD) > 1)]
    dataset().filter(expr=col("id") < 0).write_datasink(sink)
    assert len(ids(dest)) == 2 + 30


class Watched(ManifestDatasink):
    """Writes down when each task wrote, and what it had of Ray."""

    marker: str

    def write(self, blocks: Any, ctx: Any) -> Any:
        begun = time.time()
        result = super().write(blocks, ctx)
        time.sleep(0.2)
        cpus = ray.get_runtime_context().get_assigned_resources()["CPU"]
        Path(f"{self.marker}-{ctx.task_idx}").write_text(f"{begun} {time.time()} {cpus}")
        return result


def test_tasks_run_with_the_arguments_of_the_write(dest: Path, tmp_path: Path):
    sink = Watched(str(dest))
    sink.marker = str(tmp_path / "ran")
    dataset().write_datasink(sink, concurrency=1, ray_remote_args={"num_cpus": 0.5})
    ran = sorted(tuple(map(float, path.read_text().split())) for path in tmp_path.glob("ran-*"))
    assert len(ran) == 4
    assert all(one[1] <= after[0] for one, after in itertools.pairwise(ran))
    assert {cpus for _, _, cpus in ran} == {0.5}
    assert ids(dest) == list(range(40))


def test_the_commit_runs_on_the_ray_of_the_driver(dest: Path):
    options = CommitOptions(workers=2)
    sink = ManifestDatasink(str(dest), partition_by="p", executor="ray", options=options)
    dataset().write_datasink(sink)
    assert sink.report is not None
    assert (sink.report.executor, sink.report.workers) == ("ray", 2)
    assert ids(dest) == list(range(40))


def test_datasets_without_rows_are_a_success(dest: Path):
    dataset(8).write_datasink(ManifestDatasink(str(dest)))
    none = dataset(8).filter(expr=col("id") < 0)
    none.write_datasink(ManifestDatasink(str(dest), mode="overwrite"))
    assert rows(dest) == []
    assert (dest / "_SUCCESS").is_file()
    sink = ManifestDatasink(str(dest), mode="overwrite", partition_by="p")
    ray.data.from_arrow([pa.table({"id": [1], "p": [2]}).slice(0, 0)]).write_datasink(sink)
    assert sink.report is not None
    assert sink.report.files == 0


@pytest.mark.wide
def test_what_was_read_from_files_is_written_to_partitions(dest: Path, tmp_path: Path):
    """Ray Data fuses such a write with its read, and gives it the schema of the list of files."""
    table = pa.table({"id": range(8), "p": [str(n % 2) for n in range(8)], "q": [0.5] * 8})
    pyarrow.dataset.write_dataset(table, tmp_path / "source", format="parquet")
    read = ray.data.read_parquet(str(tmp_path / "source"))
    read.write_datasink(ManifestDatasink(str(dest), partition_by="p"))
    assert ids(dest) == list(range(8))
    assert {path.name for path in dest.iterdir()} == {"p=0", "p=1", "_SUCCESS"}
    read.filter(expr=col("id") < 0).write_datasink(ManifestDatasink(str(dest), mode="overwrite"))
    assert not list(dest.rglob("part-*"))


def test_pandas_blocks_are_written_too(dest: Path):
    frame = pandas.DataFrame({"id": [1, 2], "p": ["x", None]})
    ray.data.from_pandas(frame).write_datasink(ManifestDatasink(str(dest), partition_by="p"))
    assert rows(dest) == [{"id": 1, "p": "x"}, {"id": 2, "p": None}]


def fail_at_row_0(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] == 0:
        raise RuntimeError("simulated failure of a task")
    return row


def test_a_task_that_fails_for_good_leaves_nothing_and_keeps_the_old_data(dest: Path):
    sink = ManifestDatasink(str(dest), mode="overwrite")
    for before in ([], [*range(8)]):
        if before:
            dataset(8).write_datasink(ManifestDatasink(str(dest)))
        with pytest.raises(Exception, match="simulated failure of a task"):
            dataset().map(fail_at_row_0).write_datasink(sink)
        assert not (dest / "_temporary").exists()
        assert bool(list(dest.rglob("part-*"))) == bool(before)
    assert ids(dest) == list(range(8))
    dataset(3).write_datasink(sink)
    assert ids(dest) == [0, 1, 2]


class LosesItsResult(ManifestDatasink):
    """The worker dies when the first task has committed: Ray runs the task again."""

    marker: str

    def write(self, blocks: Any, ctx: Any) -> Any:
        result = super().write(blocks, ctx)
        if ctx.task_idx == 0 and not Path(self.marker).exists():
            Path(self.marker).write_text(result.manifest)
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def test_an_attempt_whose_result_was_lost_is_not_committed(dest: Path, tmp_path: Path):
    sink = LosesItsResult(str(dest), partition_by="p")
    sink.marker = str(tmp_path / "lost")
    dataset().write_datasink(sink)
    lost = Path(sink.marker).read_text().removeprefix("task_").removesuffix("-manifest.json")
    assert lost
    assert not list(dest.rglob(f"*{lost}*"))
    assert ids(dest) == list(range(40))
    assert not (dest / "_temporary").exists()


class CommitsTwice(ManifestDatasink):
    """Each task has a second attempt that commits after the one whose result counts."""

    def write(self, blocks: Any, ctx: Any) -> Any:
        kept = list(blocks)
        result = super().write(kept, ctx)
        super().write(kept, ctx)
        return result


def test_of_two_attempts_that_commit_one_counts(dest: Path):
    sink = CommitsTwice(str(dest), partition_by="p")
    dataset().write_datasink(sink)
    assert sink.report is not None
    assert sink.report.manifests == 4
    assert ids(dest) == list(range(40))


class StopsInTheCommit(ManifestDatasink):
    """Its commit is cancelled when the record is written."""

    def on_write_complete(self, write_result: Any) -> None:
        assert self._job is not None
        token = ray_committer.CancelToken()
        tasks = tuple(write_result.write_returns)
        options = CommitOptions(committed_tasks=tasks, ignore_other_attempts=True)

        def cancel(event: object) -> None:
            if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
                token.cancel()

        ray_committer.commit_job(
            self._job.dest, self._job.job_id, options=options, cancel=token, on_event=cancel
        )


def test_a_commit_that_stopped_in_the_middle_keeps_all_and_the_command_finishes_it(dest: Path):
    with pytest.raises(CommitCancelledError) as caught:
        dataset().write_datasink(StopsInTheCommit(str(dest), partition_by="p"))
    assert "ray-committer commit" in "".join(caught.value.__notes__)
    (job,) = ray_committer.list_jobs(str(dest))
    assert (job.state, job.manifests) == ("recorded", 4)
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0, result.output
    assert ids(dest) == list(range(40))


@pytest.mark.filterwarnings("ignore:You've enabled checkpointing:UserWarning")
@pytest.mark.filterwarnings("ignore:Checkpointing with non-file datasink:UserWarning")
def test_checkpoints_are_refused_before_anything_is_written(dest: Path, tmp_path: Path):
    sink = ManifestDatasink(str(dest))
    written = dataset()
    config = CheckpointConfig(id_column="id", checkpoint_path=str(tmp_path / "checkpoints"))
    ray.data.DataContext.get_current().checkpoint_config = config
    with pytest.raises(ValueError, match="checkpoints are on"):
        ManifestDatasink(str(dest))
    later = dataset()
    ray.data.DataContext.get_current().checkpoint_config = None
    assert later.context.checkpoint_config is not None
    with pytest.raises(Exception, match="checkpoints are on"):
        later.write_datasink(sink)
    assert nothing_is_left(dest)
    written.write_datasink(sink)
    assert ids(dest) == list(range(40))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"format": "orc"}, "format 'orc': is not one of"),
        ({"mode": "keep"}, "mode 'keep': is not one of"),
        ({"mode": SaveMode.UPSERT}, "mode 'upsert': is not one of"),
        ({"mode": "overwrite_partitions"}, "needs partition_by"),
        ({"min_rows_per_file": 2, "max_rows_per_file": 1}, "must not be above max_rows_per_file"),
        ({"format_options": {"sep": ";"}}, "sep"),
    ],
)
def test_what_a_sink_cannot_do_is_refused_at_once(dest: Path, arguments: dict[str, Any], what: str):
    with pytest.raises(ValueError, match=what):
        ManifestDatasink(str(dest), **arguments)


@pytest.mark.parametrize("columns", [["q"], ["p", "id"]])
def test_columns_that_cannot_be_partitions_are_refused_before_any_task(dest: Path, columns: list[str]):
    with pytest.raises(Exception, match=r"leaves no column|'q': is not one of id, p"):
        dataset().write_datasink(ManifestDatasink(str(dest), partition_by=columns))
    assert not dest.exists()


def test_one_sink_writes_one_dataset_at_a_time(dest: Path):
    sink = ManifestDatasink(str(dest))
    sink.on_write_start(None)
    with pytest.raises(RuntimeError, match="this sink is still writing job"):
        sink.on_write_start(None)
    sink.on_write_failed(RuntimeError("simulated"))
    assert nothing_is_left(dest)
