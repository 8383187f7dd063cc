"""``_SUCCESS`` files and summary reports, Hadoop's and ours."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ray_committer.errors import ManifestError
from ray_committer.protocol.iostatistics import IOStatistics, count
from ray_committer.protocol.success import (
    MAX_FILENAMES,
    SUCCESS_NAME,
    SuccessData,
    decode_success,
    encode_success,
    new_success_data,
)

DATA = Path(__file__).parents[1] / "data" / "hadoop"
MARKERS = sorted(DATA.glob("success/*.json"))
REPORTS = sorted(DATA.glob("reports/summary-*.json"))
# job: (files, bytes), as the manifests say; the two that failed committed nothing.
COMMITTED = {
    "job_202401011200_0007": (15, 760),
    "7f0b1c3a-5b0e-4c5e-9c6e-0123456789ab": (9, 909),
    "6a5f991c-ca0a-471a-9e81-3eb002380ef3": (12, 5898),
    "f84169fe-57ba-4a28-90e8-996ce9ef99da": (3, 115),
    "job_202401011200_0009": (0, 0),
    "job_202401011200_0010": (0, 0),
}
FAILED_STAGES = {
    "job_202401011200_0009": "job_stage_rename_files",
    "job_202401011200_0010": "job_stage_abort",
}


def marker(**fields: Any) -> SuccessData:
    arguments: dict[str, Any] = {
        "job_id": "job_1_0001",
        "now_milliseconds": 1_795_295_345_373,
        "hostname": "node",
        "success": True,
        "stage": "committer_commit_job",
        "filenames": [],
        "diagnostics": {},
        "iostatistics": IOStatistics(),
    }
    return new_success_data(**{**arguments, **fields})


@pytest.mark.parametrize(
    "path", [*MARKERS, *REPORTS], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_real_file_decodes_field_by_field(path: Path) -> None:
    raw = json.loads(path.read_text("utf-8"))
    data = decode_success(path.read_bytes(), str(path))
    assert data is not None
    job_id = path.stem.removeprefix("summary-")
    assert data.job_id == raw["jobId"] == job_id
    assert data.name == raw["name"] == SUCCESS_NAME
    assert data.success is raw["success"] is (job_id not in FAILED_STAGES)
    assert (data.timestamp, data.date, data.hostname) == (raw["timestamp"], raw["date"], raw["hostname"])
    assert data.committer == raw["committer"]
    assert data.job_id_source == raw["jobIdSource"]
    assert data.diagnostics == raw["diagnostics"]
    assert (data.diagnostics or {})["stage"] == FAILED_STAGES.get(job_id, "committer_commit_job")
    assert data.filenames == raw["filenames"]
    assert data.iostatistics is not None
    counters = data.iostatistics.counters
    assert (counters["committer_files_committed"], counters["committer_bytes_committed"]) == COMMITTED[
        job_id
    ]
    assert data.iostatistics.gauges == raw["iostatistics"]["gauges"]


@pytest.mark.parametrize(
    "path", [*MARKERS, *REPORTS], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_real_file_survives_our_writer(path: Path) -> None:
    data = decode_success(path.read_bytes(), str(path))
    assert data is not None
    assert decode_success(encode_success(data), "again") == data


@pytest.mark.parametrize("data", [b"", b"\n", b"  \r\n"])
def test_empty_marker_is_the_classic_committers(data: bytes) -> None:
    assert decode_success(data, "p") is None


def test_ours_has_every_field_that_hadoop_writes() -> None:
    real = json.loads(MARKERS[0].read_bytes())
    ours = json.loads(encode_success(marker()))
    assert ours.keys() == real.keys()
    assert ours["name"] == real["name"]
    assert type(ours["timestamp"]) is int
    assert ours["success"] is True
    assert ours["jobId"] == "job_1_0001"
    assert ours["diagnostics"]["stage"] == "committer_commit_job"


def test_a_failure_is_written_as_one() -> None:
    ours = json.loads(encode_success(marker(success=False, stage="job_stage_rename_files")))
    assert ours["success"] is False
    assert ours["diagnostics"]["stage"] == "job_stage_rename_files"


def test_date_has_the_form_of_java_and_is_the_timestamp() -> None:
    form = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d+)Z\[Etc/UTC\]")
    real = json.loads(MARKERS[0].read_bytes())
    ours = json.loads(encode_success(marker(now_milliseconds=1_795_295_345_373)))
    assert form.fullmatch(real["date"])
    match = form.fullmatch(ours["date"])
    assert match is not None
    moment = datetime.datetime.fromisoformat(f"{match[1]}+00:00")
    assert int(moment.timestamp() * 1000) + int(match[2][:3]) == ours["timestamp"] == 1_795_295_345_373


@pytest.mark.parametrize("files", [0, 1, 99, 100, 101, 5000])
def test_at_most_100_files_are_named_in_order(files: int) -> None:
    names = [f"file:/d/part-{number:05}" for number in range(files)]
    assert marker(filenames=names).filenames == names[:100]
    assert MAX_FILENAMES == 100


def test_diagnostics_keep_what_is_given_beside_the_stage() -> None:
    data = marker(diagnostics={"nonce": "n", "executor": "threads"}, stage="s")
    assert data.diagnostics == {"nonce": "n", "executor": "threads", "stage": "s"}


def test_our_marker_round_trips() -> None:
    data = marker(filenames=["file:/d/é%20😀"], iostatistics=count("a", 3))
    assert decode_success(encode_success(data), "p") == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"{", "truncated", id="truncated"),
        pytest.param(b"[]", "got `array`", id="an array"),
        pytest.param(b'{"name":"x","timestamp":1}', "'x'", id="another name"),
        pytest.param(b'{"timestamp":1}', "`name`", id="no name"),
        pytest.param(b"\xff\xfe", "not a job success marker", id="binary"),
        pytest.param(
            b'{"name":"x","timestamp":1,"metrics":' + b'{"a":' * 200_000, "recursion", id="deep"
        ),
    ],
)
def test_other_files_are_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        decode_success(data, "/d/_SUCCESS")
    assert str(caught.value).startswith("/d/_SUCCESS: ")
