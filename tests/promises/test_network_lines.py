"""What the doctor says of a network file system that shows late what others have done there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.executors.ray.survey import NodeAnswer, Survey
from ray_committer.promises.examine import examine
from ray_committer.promises.lines import Line, Verdict
from ray_committer.promises.network_lines import NODES, PROCESSES, examine_nodes, examine_processes
from ray_committer.promises.scratch import Scratch
from ray_committer.protocol.paths import join
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.version import __version__
from tests.network_client import NetworkClient

FILE = StoreSpec("file")


class Blind(NetworkClient):
    """A machine that remembers its listings whatever it does."""

    def revalidate(self, path: str) -> None:
        pass


def scratch(store: StoreOperations, tmp_path: Path) -> Scratch:
    made = Scratch(store, str(tmp_path))
    made.make()
    return made


def cluster(*answers: Callable[[Callable[[], Any]], Any]) -> Callable[[Callable[[], Any]], Survey]:
    """Asks nodes, each of which answers in its own way."""

    def ask(question: Callable[[], Any]) -> Survey:
        found = [
            NodeAnswer(f"node{number}", __version__, answer(question))
            for number, answer in enumerate(answers)
        ]
        return Survey("2.60", tuple(found), free_cpus=4, workers=4, wanted_cpus=0.4)

    return ask


def honest(question: Callable[[], Any]) -> Any:
    return question()


def blind(question: Callable[[], Any]) -> Any:
    answer = question()
    return answer if len(answer) == 1 else ()


def broken(_: Callable[[], Any]) -> Any:
    return "PermissionError: x"


def nodes(store: StoreOperations, tmp_path: Path, *answers: Callable[..., Any]) -> Line:
    (line,) = examine_nodes(scratch(store, tmp_path), FILE, cluster(*answers))
    assert line.name == NODES
    return line


def test_on_disks_of_this_machine_there_is_no_line(tmp_path: Path):
    own = scratch(LocalStore(FILE), tmp_path)
    assert examine_processes(own) == []
    assert examine_nodes(own, FILE, cluster(honest)) == []


def test_what_another_process_has_made_is_listed_and_the_file_system_named(tmp_path: Path):
    (line,) = examine_processes(scratch(NetworkClient(), tmp_path))
    assert (line.name, line.verdict) == (PROCESSES, Verdict.WARNING)
    assert line.measured.startswith("nfs4, a network file system: ")
    assert "--executor ray" in line.advice


def test_a_listing_that_does_not_show_what_another_process_has_made_fails(tmp_path: Path):
    (line,) = examine_processes(scratch(Blind(), tmp_path))
    assert (line.verdict, line.measured) == (
        Verdict.FAILED,
        "nfs4: a file that another process had created was not listed",
    )
    assert "actimeo=0" in line.advice


def test_the_doctor_looks_and_leaves_nothing(tmp_path: Path):
    diagnosis = examine(NetworkClient(), join(str(tmp_path), "table"), "threads", CommitOptions())
    verdicts = {line.name: line.verdict for line in diagnosis.lines}
    assert verdicts[PROCESSES] is Verdict.WARNING
    assert verdicts["listings"] is verdicts["clean-up"] is Verdict.OK
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_list_what_each_other_made_are_fine(tmp_path: Path):
    line = nodes(NetworkClient(), tmp_path, honest, honest)
    assert (line.verdict, line.measured) == (
        Verdict.OK,
        "nfs4: a file of each of 2 nodes was listed by all at once",
    )


def test_one_node_proves_nothing(tmp_path: Path):
    assert nodes(NetworkClient(), tmp_path, honest).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("store", "second", "named"),
    [
        (NetworkClient, blind, "node1: did not list 3 files that others had created"),
        (NetworkClient, broken, "node1: PermissionError: x"),
        (Blind, honest, "this process: did not list 2 files that others had created"),
    ],
)
def test_who_does_not_list_what_others_made_is_named(
    tmp_path: Path, store: Callable[[], StoreOperations], second: Callable[..., Any], named: str
):
    line = nodes(store(), tmp_path, honest, second)
    assert line.verdict is Verdict.FAILED
    assert named in line.measured
