"""The doctor on a Ray cluster of three raylets: what each node has, and whether it sees the store."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.promises.lines import Diagnosis, Verdict
from ray_committer.version import __version__

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("ray_cluster")]


def ray_lines(diagnosis: Diagnosis) -> dict[str, tuple[Verdict, str]]:
    return {
        one.name: (one.verdict, one.measured) for one in diagnosis.lines if one.name.startswith("ray")
    }


def test_a_cluster_that_could_commit_is_all_ok(dest: Path):
    found = ray_lines(ray_committer.doctor(str(dest), executor="ray"))
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "ray": Verdict.OK,
        "ray package": Verdict.OK,
        "ray sees the store": Verdict.OK,
        "ray cpus": Verdict.OK,
    }
    assert "3 nodes with CPUs" in found["ray"][1]
    assert f"ray-committer {__version__} on every node" in found["ray package"][1]
    assert found["ray cpus"][1] == "5 CPUs are free; 6 workers need 0.6 together"
    assert not dest.exists()


def test_nodes_that_see_another_store_are_named_one_by_one(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # which the nodes do not
    diagnosis = ray_committer.doctor("/proc/self/cwd/table", executor="ray")
    verdict, measured = ray_lines(diagnosis)["ray sees the store"]
    assert verdict is Verdict.FAILED
    assert measured.count("FileNotFoundError") == 3
    assert diagnosis.failed


def test_a_cluster_without_room_is_a_warning(dest: Path):
    options = CommitOptions(workers=50, worker_cpus=1.0)
    diagnosis = ray_committer.doctor(str(dest), executor="ray", options=options)
    assert ray_lines(diagnosis)["ray cpus"][0] is Verdict.WARNING
    assert not diagnosis.failed


@pytest.mark.usefixtures("fsspec_stores")
def test_a_large_commit_to_a_remote_store_would_take_the_connected_ray():
    found = ray_lines(ray_committer.doctor("memory://t/table"))
    assert found["ray"][0] is Verdict.OK


@pytest.mark.usefixtures("fsspec_stores")
def test_nodes_without_the_package_of_an_own_store_are_named_one_by_one():
    diagnosis = ray_committer.doctor("memory://t/table", executor="ray")
    verdict, measured = ray_lines(diagnosis)["ray sees the store"]
    assert verdict is Verdict.FAILED
    assert measured.count("StoreRefusedError: memory://t: cannot be committed to") == 3


def test_local_files_would_not(dest: Path):
    assert ray_lines(ray_committer.doctor(str(dest))) == {
        "ray": (Verdict.NOTE, "not used: local files gain nothing from more processes")
    }
