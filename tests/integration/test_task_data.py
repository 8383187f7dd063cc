"""The data of tasks on object stores goes through the store's own client, under its own name."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import ray_committer
from ray_committer.errors import PathError, PreflightError
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import open_store, resolve_destination
from tests.servers.dfs import ACCOUNT, DfsServer
from tests.servers.faults import Faults
from tests.servers.gcs import GcsServer
from tests.servers.proxy import Fault, Harm, Request

PART = 256 << 10
NAMES = ["a?b", "a?versionid=1", "a?", "a#b", "a?b#c", "p=1/a%3Fb", "a;b", "a b%", "é+&'", "a%2Fb"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray_committer.stores.parts.PART_BYTES", PART)


@dataclass(frozen=True)
class Place:
    """A destination; `losing` loses each answer to a part with this probability, or all."""

    url: str
    options: dict[str, Any]
    losing: Callable[[float], AbstractContextManager[object]]

    def store(self) -> tuple[StoreOperations, str]:
        spec, path = resolve_destination(self.url, self.options)
        return open_store(spec), path


@pytest.fixture
def gcs(gcs_server: GcsServer) -> Iterator[Place]:
    proxy = gcs_server.proxy
    proxy.reset()

    def is_part(request: Request) -> bool:
        return "uploadType" in request.path

    def losing(probability: float) -> AbstractContextManager[object]:
        return proxy.faulty(
            Fault(Harm.LOSE, is_part, probability), Fault(Harm.CUT, is_part, probability / 2)
        )

    yield Place(f"gs://{gcs_server.new_bucket()}/t", gcs_server.storage_options, losing)
    proxy.reset()


@pytest.fixture
def adls(dfs: DfsServer) -> Place:
    @contextmanager
    def losing(probability: float) -> Iterator[None]:
        dfs.faults = Faults(
            failed_before=probability / 2, lost_answer=probability, hits=lambda name: name == "append"
        )
        yield
        dfs.faults = Faults()

    url = f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/{uuid.uuid4()}/t"
    return Place(url, {"connection_string": dfs.connection_string()}, losing)


@pytest.fixture(params=["gcs", "adls"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def write(place: Place, files: dict[str, bytes], chunk: int = 100_000) -> None:
    """Write and commit files."""
    ray_committer.setup_job(place.url, "j", storage_options=place.options)
    with ray_committer.task_attempt(place.url, "j", 0, storage_options=place.options) as attempt:
        for name, data in files.items():
            with attempt.open(name) as file:
                for start in range(0, len(data), chunk):
                    file.write(data[start : start + chunk])
                assert file.tell() == len(data)
    ray_committer.commit_job(place.url, "j", executor="inline", storage_options=place.options)


def found(place: Place) -> dict[str, bytes]:
    store, path = place.store()
    listed = [one.path for one in store.list_files(path) if not one.name.startswith("_")]
    return {one.removeprefix(f"{path}/"): store.read(one) for one in listed}


def test_each_name_is_written_as_it_is(place: Place):
    files = {name: name.encode() for name in NAMES}
    write(place, files)
    assert found(place) == files


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 2 * PART, 3 * PART + 7])
def test_a_file_of_any_length_is_whole(place: Place, size: int):
    data = random.Random(size).randbytes(size)
    write(place, {"a": data})
    assert found(place) == {"a": data}


def test_a_part_whose_answer_is_lost_is_there_once(place: Place):
    files = {f"f{number}": random.Random(number).randbytes(4 * PART + number) for number in range(3)}
    with place.losing(0.2):
        write(place, files)
    assert found(place) == files


@pytest.mark.parametrize("name", ["a?versionid=1", "a?b#c", "a?"])
def test_a_name_that_fsspec_takes_for_another_one_is_no_path_for_it(adls: Place, name: str):
    ray_committer.setup_job(adls.url, "j", storage_options=adls.options)
    with (
        pytest.raises(PathError, match="takes this name for another one"),
        ray_committer.task_attempt(adls.url, "j", 0, storage_options=adls.options) as attempt,
    ):
        attempt.path(name)


def test_the_data_goes_where_the_commit_goes_and_nowhere_else(gcs: Place, gcs_server: GcsServer):
    """Not by gRPC, and with no request that the commit would not make."""
    write(gcs, {"a": b"x" * (3 * PART)})
    kinds = {
        request.headers.get("User-Agent", "").partition("/")[0] for request in gcs_server.proxy.requests
    }
    assert kinds == {"ray-committer"}


@pytest.mark.parametrize(
    "name", ["x" * 1100, "d/" + "y" * 1100, "z" * 1000], ids=["long", "deep", "where it is written"]
)
def test_a_name_that_the_store_refuses_is_refused_before_data_is_written(place: Place, name: str):
    ray_committer.setup_job(place.url, "j", storage_options=place.options)
    with (
        pytest.raises((PathError, PreflightError), match="longer than the store allows"),
        ray_committer.task_attempt(place.url, "j", 0, storage_options=place.options) as attempt,
    ):
        attempt.open(name)


def test_a_line_break_is_refused_by_name_on_google(gcs: Place):
    ray_committer.setup_job(gcs.url, "j", storage_options=gcs.options)
    with (
        pytest.raises(PreflightError, match="which the store refuses in a name"),
        ray_committer.task_attempt(gcs.url, "j", 0, storage_options=gcs.options) as attempt,
    ):
        attempt.open("a\nb")
