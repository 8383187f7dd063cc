"""What `auto` stands for: a table of decisions, and no Ray started for any of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ray_committer.executors.choose import START_SECONDS, choose_name, ray_pays_from, reachable_ray
from ray_committer.options import CommitOptions

OPTIONS = CommitOptions(workers=8)
MANY = 3_200


@pytest.mark.parametrize(
    ("local", "ray", "files", "name", "reason"),
    [
        (True, None, MANY, "threads", "local files"),
        (True, "Ray is connected", MANY, "threads", "local files"),
        (False, None, MANY, "threads", "no Ray is connected"),
        (False, "Ray is connected", MANY - 1, "threads", "about 3,199 files; workers on Ray are faster"),
        (False, "Ray is connected", MANY, "ray", "about 3,200 files, Ray is connected"),
        (False, "RAY_ADDRESS is set", 10**7, "ray", "about 10,000,000 files, RAY_ADDRESS is set"),
        (False, "RAY_ADDRESS is set", 0, "threads", "about 0 files"),
    ],
)
def test_auto_takes_ray_only_where_it_pays(
    local: bool, ray: str | None, files: int, name: str, reason: str
):
    chosen, why = choose_name(OPTIONS, renames_are_local=local, ray=ray, estimate_files=lambda: files)
    assert chosen == name
    assert why.startswith(reason)


@pytest.mark.parametrize(("local", "ray"), [(True, "Ray is connected"), (False, None)])
def test_files_are_not_counted_where_their_number_decides_nothing(local: bool, ray: str | None):
    def count() -> int:
        raise AssertionError("costs two requests")

    assert choose_name(OPTIONS, renames_are_local=local, ray=ray, estimate_files=count)[0] == "threads"


def test_ray_is_never_taken_for_as_many_requests_in_flight_as_threads_have():
    few = CommitOptions(workers=2)
    chosen, why = choose_name(
        few, renames_are_local=False, ray="Ray is connected", estimate_files=lambda: 10**9
    )
    assert (chosen, why) == (
        "threads",
        "workers on Ray would have 32 requests in flight, threads here have 32",
    )


@pytest.mark.parametrize(
    ("in_flight", "files"), [(16, None), (32, None), (64, 4_800), (128, 3_200), (1024, 2_478)]
)
def test_the_more_requests_are_in_flight_the_sooner_ray_pays(in_flight: int, files: int | None):
    assert ray_pays_from(in_flight, 32, START_SECONDS) == files


@pytest.mark.parametrize(
    ("connected", "address", "found"),
    [
        (None, None, None),
        (None, "", None),
        (None, "auto", "RAY_ADDRESS is set"),
        (False, None, None),
        (False, "ray://head:10001", None),
        (True, None, "Ray is connected"),
        (True, "auto", "Ray is connected"),
    ],
)
def test_a_ray_is_reachable_if_connected_or_named(
    monkeypatch: pytest.MonkeyPatch, connected: bool | None, address: str | None, found: str | None
):
    """`connected` is None in a process that has not imported Ray, which stays so."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    if connected is not None:
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: connected))
    assert reachable_ray() == found
    assert ("ray" in sys.modules) is (connected is not None)
