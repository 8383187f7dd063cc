"""A store that does not answer: the error comes in the time that was asked for, and names the place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitStateUnknownError, StoreUnavailableError
from ray_committer.stores.deadline import DEADLINE_SECONDS, LEAST_SECONDS, first_deadline
from tests.servers.ports import free_port
from tests.servers.silent import silent_server

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]

RETRY_SECONDS = 1.5
SLACK_SECONDS = 5.0
OPTIONS = CommitOptions(retry_seconds=RETRY_SECONDS)
KEY = "a2V5"

Place = tuple[str, dict[str, Any]]
PLACES: dict[str, Callable[[str], Place]] = {
    "gs": lambda host: ("gs://bucket/t", {"token": "anon", "endpoint_url": f"http://{host}"}),
    "abfs": lambda host: (
        "abfs://lake@acct.dfs.core.windows.net/t",
        {"account_key": KEY, "endpoint": f"http://{host}/acct"},
    ),
    "hdfs": lambda host: (f"hdfs://{host}/t", {}),
    "webhdfs": lambda host: (f"webhdfs://{host}/t", {}),
}
CLIENTS = {
    "gs": "ray_committer.stores.gcs.store",
    "abfs": "ray_committer.stores.adls.open",
    "hdfs": "ray_committer.stores.hdfs.store",
    "webhdfs": "ray_committer.stores.hdfs.webhdfs",
}


@pytest.fixture(params=["nobody listens", "no such name", "silent"])
def host(request: pytest.FixtureRequest) -> Iterator[str]:
    match request.param:
        case "nobody listens":
            yield f"127.0.0.1:{free_port()}"
        case "no such name":
            yield "store.invalid"
        case _:
            with silent_server() as silent:
                yield silent


@pytest.mark.parametrize("scheme", PLACES)
def test_a_store_that_does_not_answer_fails_in_time_and_by_name(scheme: str, host: str):
    dest, storage_options = PLACES[scheme](host)
    import_module(CLIENTS[scheme])  # which takes seconds on a busy machine
    started = time.monotonic()
    with pytest.raises(CommitStateUnknownError) as caught:
        ray_committer.commit_job(
            dest, "job_1", executor="inline", options=OPTIONS, storage_options=storage_options
        )
    assert time.monotonic() - started < RETRY_SECONDS + SLACK_SECONDS
    assert dest.removesuffix("t") in caught.value.what
    assert host in caught.value.what
    assert isinstance(caught.value.__cause__, StoreUnavailableError)


@pytest.mark.parametrize("scheme", PLACES)
def test_so_do_operations_that_open_no_job(scheme: str):
    with silent_server() as host:
        dest, storage_options = PLACES[scheme](host)
        import_module(CLIENTS[scheme])
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer within") as caught:
            ray_committer.setup_job(dest, "job_1", options=OPTIONS, storage_options=storage_options)
    assert time.monotonic() - started < RETRY_SECONDS + SLACK_SECONDS
    assert dest.removesuffix("t") in str(caught.value.filename)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 59.0, 60.0, 61.0, 119.0, 130.0, 300.0])
def test_attempts_that_are_all_silent_fit_into_the_time(seconds: float):
    deadline = first_deadline(seconds)
    assert LEAST_SECONDS <= deadline <= DEADLINE_SECONDS
    attempts = max(LEAST_SECONDS, seconds) / deadline
    assert attempts == pytest.approx(round(attempts))


def test_the_doctor_names_the_place_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ray_committer.promises.examine.RETRY_SECONDS", RETRY_SECONDS)
    with silent_server() as host:
        dest, storage_options = PLACES["gs"](host)
        (line,) = ray_committer.doctor(dest, storage_options=storage_options).lines
    assert line.measured == f"gs://bucket/: GET at {host}: no answer within {RETRY_SECONDS:g} s"
    assert line.advice == "fix that and run the same command"
