"""The files for ``ray up``: Ray takes them, every key is read, and a wrong one is refused by name."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from ray_committer.version import __version__
from tests.cluster_configs.pins import CONFIGS, ray_version, wrong_pins
from tests.cluster_configs.ray_up import problems

FILES = ("gcp.yaml", "azure.yaml", "aws.yaml")


def load(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((CONFIGS / name).read_text())
    return config


@pytest.mark.parametrize("name", FILES)
def test_ray_takes_the_file_and_every_key_of_it_is_read(name: str):
    assert problems(load(name)) == []
    assert list(wrong_pins((CONFIGS / name).read_text())) == []


@pytest.mark.parametrize("name", FILES)
def test_the_cluster_wants_the_token_on_every_node(name: str):
    config = load(name)
    assert config["docker"]["run_options"] == ["--env RAY_AUTH_MODE=token"]
    assert "/home/ray/.ray/auth_token" in config["file_mounts"]


def test_azures_head_gets_no_older_azure_core_than_the_storage_client_needs():
    pytest.importorskip("azure.storage.blob")
    from importlib.metadata import requires

    needed = next(one for one in requires("azure-storage-blob") or () if one.startswith("azure-core"))
    assert needed.startswith("azure-core>=1.3")
    commands = " ".join(load("azure.yaml")["head_setup_commands"])
    assert "azure-mgmt-compute" in commands
    assert "azure-core" not in commands


WRONG: list[tuple[str, str, Any, str]] = [
    ("gcp.yaml", "max_worker", 8, "Additional properties are not allowed ('max_worker'"),
    ("gcp.yaml", "idle_timeout_minutes", "soon", "'soon' is not of type 'number'"),
    ("gcp.yaml", "head_node_type", "header", "`head_node_type` must be one of"),
    ("gcp.yaml", "max_workers", 1, "`max_workers` is smaller than the sum of `min_workers`"),
    ("gcp.yaml", "available_node_types.worker.min_workers", 9, "smaller than the sum"),
    (
        "gcp.yaml",
        "available_node_types.worker.max_workers",
        1,
        "min_workers 2 is more than max_workers 1",
    ),
    ("gcp.yaml", "available_node_types.worker.max_workers", 9, "more than that of the cluster"),
    ("gcp.yaml", "available_node_types.worker.resources.CPU", 8, "CPU 8 is not 2, as a node of n2-st"),
    ("gcp.yaml", "available_node_types.head.resources.CPU", 4, "CPU 4 is not 0"),
    ("gcp.yaml", "provider.availibility_zone", "a", "availibility_zone: is read by nothing in Ray's"),
    ("gcp.yaml", "provider.project_id", None, "project_id: is missing"),
    ("gcp.yaml", "provider.location", "here", "location: is read by nothing"),
    ("gcp.yaml", "available_node_types.worker.node_config.machinetype", "x", "'machinetype' was unexp"),
    ("gcp.yaml", "available_node_types.worker.node_config.disks.0.boot", "yes", "disks[0].boot: 'yes'"),
    (
        "gcp.yaml",
        "available_node_types.worker.node_config.scheduling.preemptable",
        True,
        "'preemptable'",
    ),
    ("gcp.yaml", "available_node_types.worker.node_config.scheduling", [], "[] is not of type 'object'"),
    ("aws.yaml", "provider.zone", "x", "zone: is read by nothing in Ray's provider for aws"),
    ("aws.yaml", "provider.region", None, "region: is missing"),
    ("aws.yaml", "available_node_types.worker.resources.CPU", 4, "CPU 4 is not 2, as a node of m5.l"),
    (
        "aws.yaml",
        "available_node_types.worker.node_config.ImageID",
        "x",
        'parameter in input: "ImageID"',
    ),
    ("aws.yaml", "available_node_types.head.node_config.ImageId", None, "ImageId: is missing"),
    (
        "aws.yaml",
        "available_node_types.worker.node_config.InstanceMarketOptions.MarketType",
        "spots",
        "spots is none of Amazon's",
    ),
    (
        "aws.yaml",
        "available_node_types.head.node_config.BlockDeviceMappings.0.Ebs.VolumeSize",
        "140",
        "VolumeSize",
    ),
    ("azure.yaml", "docker.imagee", "x", "Additional properties are not allowed ('imagee'"),
    ("azure.yaml", "provider.resourcegroup", "x", "resourcegroup: is read by nothing in Ray's"),
    ("azure.yaml", "provider.location", None, "location: is missing"),
    ("azure.yaml", "provider.msi_resource_group", None, "counts only with msi_resource_group"),
    ("azure.yaml", "provider.project_id", "x", "project_id: is read by nothing"),
    ("azure.yaml", "available_node_types.worker.node_config.vmSize", "x", "vmSize: is no key of Ray's"),
]
ARM = "available_node_types.worker.node_config.azure_arm_parameters."
WRONG += [
    ("azure.yaml", f"{ARM}vmsize", "x", "vmsize: is no parameter of Ray's azure-vm-template.json"),
    ("azure.yaml", f"{ARM}vmCount", 2, "vmCount: is no parameter"),
    ("azure.yaml", f"{ARM}imageSku", 2204, "imageSku: 2204 is not of type string"),
    ("azure.yaml", f"{ARM}imageOffer", None, "imageOffer: is missing"),
    ("azure.yaml", f"{ARM}priority", "spot", "priority: spot is none of Azure's"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path", "value", "message"), WRONG)
def test_a_wrong_copy_is_refused_and_the_reason_names_it(name: str, path: str, value: Any, message: str):
    found = problems(changed(load(name), path, value))
    assert any(message in problem for problem in found), found


def test_each_node_needs_a_type_that_says_what_it_is():
    config = load("gcp.yaml")
    del config["available_node_types"]["worker"]["resources"]
    assert "'resources' is a required property" in problems(config)[0]


RAY, OWN = ray_version(), __version__


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (f"ray:{RAY}-py311", "ray:2.59.0-py311", f"2.59.0-py311: is not rayproject/ray:{RAY}-py311"),
        (f"ray:{RAY}-py311", f"ray:{RAY}-py312", "py312: is not"),
        (f"ray:{RAY}-py311", f"ray:{RAY}", f"rayproject/ray:{RAY}: is not"),
        (f"[gcs]=={OWN}", "[gcs]==0.0.9", "ray-committer[gcs]==0.0.9: is not version"),
        (f"[gcs]=={OWN}", f"[gs]=={OWN}", "there is no extra gs"),
        (f"[gcs]=={OWN}", "[gcs]", "names no version"),
    ],
)
def test_a_copy_of_another_version_is_refused(right: str, wrong: str, message: str):
    text = (CONFIGS / "gcp.yaml").read_text()
    assert right in text
    assert any(message in problem for problem in wrong_pins(text.replace(right, wrong)))


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one value set, or removed by None; aliases of YAML are resolved."""
    copied = copy.deepcopy(config)
    *way, last = path.split(".")
    place: Any = copied
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copied
