"""The files for `ray up` and Kubernetes are valid, and all files name the tested versions."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from ray_committer.cli.main import main
from ray_committer.version import __version__

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "cluster_configs"
KUBERAY = ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml")


def load(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((CONFIGS / name).read_text())
    return config


@pytest.mark.parametrize("name", ["gcp.yaml", "azure.yaml", "aws.yaml"])
def test_ray_takes_the_file_and_its_nodes_want_the_token(name: str):
    config = load(name)
    validate_config(prepare_config(json.loads(json.dumps(config))))
    assert config["docker"]["run_options"] == ["--env RAY_AUTH_MODE=token"]
    assert "/home/ray/.ray/auth_token" in config["file_mounts"]
    assert config["available_node_types"][config["head_node_type"]]["resources"]["CPU"] == 0


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("name", KUBERAY)
def test_kubernetes_takes_the_pods_and_they_want_the_token(name: str, version: str):
    spec = load(name)["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}  # no commit workers there
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": group["template"]}
        kubernetes_validate.validate(template, version, strict=True)


def test_the_entry_point_of_the_job_is_a_command():
    program, command, *words = shlex.split(load("kuberay-rayjob.yaml")["spec"]["entrypoint"])
    found = main.get_command(click.Context(main), command)
    assert program == "ray-committer"
    assert found is not None
    found.make_context(command, words)


def version_of(package: str) -> str:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{package}==")).partition("==")[2]


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PINS = [
    (r"rayproject/ray:([\w.]+)-py311", version_of("ray")),
    (r"rayVersion: \"([\w.]+)\"", version_of("ray")),
    (r"Ray ([\d.]+) on Python 3\.11", version_of("ray")),
    (r"registry\.example\.com/[\w-]+:([\w.]+)", __version__),
    (r"\bray-committer(?:\[[\w,${}]+\])?==([\w.]+)", __version__),
]


@pytest.mark.parametrize(("pattern", "version"), PINS)
def test_all_files_name_the_versions_that_the_tests_run_with(pattern: str, version: str):
    text = "\n".join(path.read_text() for path in CONFIGS.rglob("*") if path.is_file())
    assert set(re.findall(pattern, text)) == {version}


def test_the_extras_that_are_installed_exist():
    text = "\n".join(path.read_text() for path in CONFIGS.rglob("*") if path.is_file())
    lists = re.findall(r"\bray-committer\[([\w,]+)\]|EXTRAS=([\w,]+)", text)
    assert {extra for found in lists for extra in "".join(found).split(",")} <= EXTRAS.keys()


def test_links_of_the_page_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)", (CONFIGS / "README.md").read_text()):
        assert (CONFIGS / link).exists(), link
