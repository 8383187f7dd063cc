"""Ray Data's writes into PostgreSQL on a cluster of three raylets: each row once, or nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray.data
from ray.data import SaveMode

from ray_committer.errors import CommitConflictError, TableColumnsError
from ray_committer.records.ray_data import RecordDatasink
from tests.docs.blocks import all_blocks
from tests.records.places import PAGE_URL, Place

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
    # Ray Data's own, of its own settings.
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def quiet() -> None:
    ray.data.DataContext.get_current().enable_progress_bars = False


@pytest.fixture
def place(postgres_place: Place) -> Place:
    return postgres_place


def dataset(rows: int = 40) -> ray.data.Dataset:
    table = pa.table({"id": range(rows), "text": [f"row {number}" for number in range(rows)]})
    return ray.data.from_arrow(table).repartition(4).materialize()


@pytest.mark.wide
def test_a_dataset_is_in_the_table_once_and_each_mode_does_what_it_says(place: Place):
    sink = RecordDatasink(place.url, place.table, mode=SaveMode.APPEND)
    dataset().write_datasink(sink)
    assert sink.report is not None
    assert (sink.report.write_id, sink.report.rows, sink.report.attempts) == (1, 40, 4)
    ray.data.range(3).map(lambda row: {"id": row["id"], "text": None}).write_datasink(sink)  # is fused
    assert place.ids() == sorted([*range(40), 0, 1, 2])
    ignoring = RecordDatasink(place.url, place.table, mode="ignore")
    dataset().write_datasink(ignoring)
    assert ignoring.report is None
    with pytest.raises(CommitConflictError, match="has rows"):
        dataset().write_datasink(RecordDatasink(place.url, place.table, mode=SaveMode.CREATE))
    dataset(5).write_datasink(RecordDatasink(place.url, place.table, mode="overwrite"))
    assert (place.ids(), place.staging()) == ([*range(5)], [])


class LosesItsResult(RecordDatasink):
    """The worker dies when the first task has written its rows: Ray runs the task again."""

    marker: str

    def write(self, blocks: Any, ctx: Any) -> Any:
        result = super().write(blocks, ctx)
        if ctx.task_idx == 0 and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def test_an_attempt_whose_result_was_lost_is_not_in_the_table(place: Place, tmp_path: Path):
    sink = LosesItsResult(place.url, place.table)
    sink.marker = str(tmp_path / "lost")
    dataset().write_datasink(sink, ray_remote_args={"max_retries": 2})
    assert Path(sink.marker).exists()
    assert (place.ids(), place.staging()) == ([*range(40)], [])


@pytest.mark.wide
def test_the_block_of_the_page_runs_as_printed(place: Place, capsys):
    text = all_blocks()["docs/records/README.md: Ray Data"].text
    text = text.replace(PAGE_URL, place.url).replace("public.orders", f"{place.schema}.orders")
    exec(compile(text, "page", "exec"), {})
    write_id, rows, attempts = capsys.readouterr().out.split()[-3:]
    assert (write_id, rows, int(attempts) > 0) == ("1", "1000", True)


@pytest.mark.wide
def test_a_write_that_fails_leaves_nothing(place: Place):
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 39:
            raise RuntimeError("simulated failure of a task")
        return row

    with pytest.raises(Exception, match="simulated failure of a task"):
        dataset().map(fail).write_datasink(RecordDatasink(place.url, place.table))
    schema = pa.schema([("id", pa.list_(pa.int64()))])
    with pytest.raises(TableColumnsError, match="column 'id' is list"):
        dataset().write_datasink(RecordDatasink(place.url, place.table, schema=schema))
    assert place.states() == [(1, "aborted")]
    assert (place.ids(), place.staging()) == ([], [])
