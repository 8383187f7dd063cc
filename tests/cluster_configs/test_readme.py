"""The page of the configurations: its tables say of each file what is in it, its commands are ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from ray.scripts.scripts import cli as ray_cli

from tests.cluster_configs.kuberay import cluster_of, command_problems
from tests.cluster_configs.pins import CONFIGS, ROOT, ray_version, wrong_pins

PAGE = CONFIGS / "README.md"
TEXT = PAGE.read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of the table below a heading, by the file that the row links to."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        link = re.search(r"\]\(([\w./-]+\.(?:yaml|conf))\)", line)
        if line.startswith("|") and link:
            found[link[1]] = cells
    return found


CLUSTERS = rows("Clusters")
DEFAULTS = rows("Spark")
DASHBOARD = "grafana/ray_committer.json"


def test_each_file_has_its_row():
    files = {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*") if path.is_file()}
    assert files == {*CLUSTERS, *DEFAULTS, DASHBOARD, "Dockerfile", "README.md"}
    assert f"({DASHBOARD})" in TEXT


@pytest.mark.parametrize("name", [*CLUSTERS, *DEFAULTS])
def test_the_values_to_change_are_at_most_three_and_marked_where_the_row_says(name: str):
    cells = " ".join((CLUSTERS | DEFAULTS)[name][2:])
    named = re.findall(r"(\d) `([\w.]+)`", cells)
    marked = changes((CONFIGS / name).read_text())
    assert [number for number, _ in named] == sorted(marked)
    assert 1 <= len(marked) <= 3
    for number, key in named:
        assert key in marked[number]


def changes(text: str) -> dict[str, str]:
    """What is at each mark: its own line, with the one before it, or the one after a comment."""
    lines = text.splitlines()
    found = {}
    for index, line in enumerate(lines):
        if mark := re.search(r"# change (\d): ", line):
            assert mark[1] not in found, f"change {mark[1]} is marked twice"
            found[mark[1]] = lines[index + 1] if line.startswith("#") else lines[index - 1] + line
    return found


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_commit_workers_of_the_table_are_those_of_the_smallest_cluster(name: str):
    config = yaml.safe_load((CONFIGS / name).read_text())
    *_, asks, workers = CLUSTERS[name]
    least, most = size(config)
    assert int(workers) == max(2, 2 * least)
    if asks == "the same":
        asks = CLUSTERS["gcp.yaml"][3]
    assert re.search(rf"\b{least} (?:spot machines|pods) of 2 CPUs", asks)
    assert (f"({most} at most)" in asks) == (most > least)


def size(config: dict[str, Any]) -> tuple[int, int]:
    """The least and the most nodes with CPUs."""
    if "kind" in config:
        (group,) = cluster_of(config)["workerGroupSpecs"]
        return group["minReplicas"], group["maxReplicas"]
    worker = config["available_node_types"]["worker"]
    return worker["min_workers"], worker["max_workers"]


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def test_rays_and_our_own_commands_are_ones_that_ray_and_we_take():
    seen = set()
    for line in commands():
        words = shlex.split(line.partition(" > ")[0])
        if words[0] != "ray":
            continue
        seen.add(words[1])
        found, rest = command_of(ray_cli, words[1:])
        context = found.make_context(words[1], list(rest))
        assert not context.args
        ours = context.params.get("entrypoint") or (context.params.get("cmd"),)
        if ours != (None,):
            assert list(command_problems(" ".join(ours))) == []
    assert seen == {"get-auth-token", "up", "exec", "down", "dashboard", "job"}


def command_of(group: click.Command, words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and the words that are its own."""
    while isinstance(group, click.Group):
        _, found, words = group.resolve_command(click.Context(group), words)
        assert found is not None
        group = found
    return group, words


def test_what_commands_name_is_in_the_files():
    for line in commands():
        for path in re.findall(r"cluster_configs/[\w./-]+", line):
            assert (ROOT / path).is_file(), line
    job = yaml.safe_load((CONFIGS / "kuberay-rayjob.yaml").read_text())["metadata"]["name"]
    cluster = yaml.safe_load((CONFIGS / "kuberay-raycluster.yaml").read_text())["metadata"]["name"]
    assert f"kubectl get rayjob {job}" in TEXT
    assert f"job-name={job}" in TEXT
    assert f"service/{cluster}-head-svc 8265" in TEXT
    assert f"kubectl get secret {cluster} " in TEXT
    for path in CONFIGS.glob("spark-defaults/jvm-*.conf"):
        assert f"http://{cluster}-head-svc:8265" in path.read_text()


def test_the_page_speaks_of_the_versions_of_the_files_and_links_to_what_is_there():
    assert list(wrong_pins(TEXT)) == []
    assert f"Ray {ray_version()} on Python 3.11" in TEXT
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (PAGE.parent / Path(link)).exists(), link
