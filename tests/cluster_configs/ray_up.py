"""What is wrong with a file for ``ray up``: by Ray's own validation, and where Ray does not look.

Ray takes any key of ``provider`` and ``node_config``. Which keys its providers read is found in their
source, Azure's parameters in Ray's template; what Google takes is in schemas/compute-instance.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import ray.autoscaler._private as autoscaler
from botocore.validate import ParamValidator
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.cluster_configs.schema import schema_problems

_AUTOSCALER = Path(autoscaler.__path__[0])
_SOURCES = {"gcp": "gcp", "azure": "_azure", "aws": "aws"}
_READ = re.compile(r"provider(?:_config|\"\])(?:\.get\(|\[)\s*\"(\w+)\"")
_BY_RAY = {"vmName", "vmTags", "vmCount", "provisionPublicIp", "msi", "nsg", "subnet", "zones"}
_BY_RAY |= {"adminUsername", "publicKey"}
_CPUS = re.compile(r"\w+-standard-(\d+)|Standard_\D+(\d+)\w*")
_CPUS_OF_AMAZON = {"large": 2, "xlarge": 4, "2xlarge": 8}


def problems(config: Mapping[str, Any]) -> list[str]:
    """A sentence for each; none for a file that ``ray up`` would take and understand."""
    try:
        validate_config(prepare_config(json.loads(json.dumps(config))))
    except (jsonschema.ValidationError, ValueError, RuntimeError, KeyError, TypeError) as e:
        return [f"ray up refuses it: {str(e).splitlines()[0]}"]
    return [*_provider(config["provider"]), *_nodes(config)]


def _provider(provider: Mapping[str, Any]) -> Iterator[str]:
    kind = provider["type"]
    known = {"type", "region", *_keys_read(_AUTOSCALER), *_keys_read(_AUTOSCALER / _SOURCES[kind])}
    for key in sorted(provider.keys() - known):
        yield f"provider.{key}: is read by nothing in Ray's provider for {kind}"
    needed = {
        "gcp": {"project_id", "region", "availability_zone"},
        "azure": {"location", "resource_group"},
        "aws": {"region", "availability_zone"},
    }
    for key in sorted(needed[kind] - provider.keys()):
        yield f"provider.{key}: is missing"
    if ("msi_name" in provider) != ("msi_resource_group" in provider):
        yield "provider.msi_name: counts only with msi_resource_group, without it Ray makes an identity"


def _keys_read(directory: Path) -> set[str]:
    """The keys of ``provider`` that the modules of a directory read."""
    return {key for path in directory.glob("*.py") for key in _READ.findall(path.read_text())}


def _nodes(config: Mapping[str, Any]) -> Iterator[str]:
    kinds = config["available_node_types"]
    for name, node in kinds.items():
        where = f"available_node_types.{name}"
        low, high = node.get("min_workers", 0), node.get("max_workers", config["max_workers"])
        if low > high:
            yield f"{where}: min_workers {low} is more than max_workers {high}"
        if high > config["max_workers"]:
            yield f"{where}: max_workers {high} is more than that of the cluster"
        check = {"gcp": _google, "azure": _azure, "aws": _amazon}[config["provider"]["type"]]
        yield from (f"{where}.node_config: {problem}" for problem in check(node["node_config"]))
        yield from (f"{where}: {problem}" for problem in _cpus(node, name == config["head_node_type"]))


def _google(node: Mapping[str, Any]) -> Iterator[str]:
    yield from schema_problems(node, "compute-instance.json")


def _amazon(node: Mapping[str, Any]) -> Iterator[str]:
    """By botocore's model of the request that starts machines; Ray gives the number and the network."""
    model = botocore.session.get_session().get_service_model("ec2").operation_model("RunInstances")
    given = {**node, "MinCount": 1, "MaxCount": 1}
    report = ParamValidator().validate(given, model.input_shape)
    yield from report.generate_report().splitlines()
    market = node.get("InstanceMarketOptions", {}).get("MarketType", "spot")
    if market not in model.input_shape.members["InstanceMarketOptions"].members["MarketType"].enum:
        yield f"InstanceMarketOptions.MarketType: {market} is none of Amazon's"
    for key in sorted({"InstanceType", "ImageId", "IamInstanceProfile"} - node.keys()):
        yield f"{key}: is missing"


def _azure(node: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(node.keys() - {"azure_arm_parameters", "tags"}):
        yield f"{key}: is no key of Ray's provider for Azure"
    template = json.loads((_AUTOSCALER / "_azure" / "azure-vm-template.json").read_text())
    types = {"string": str, "int": int, "bool": bool, "object": dict, "array": list}
    given = {
        key: value for key, value in node["azure_arm_parameters"].items() if key != "availability_zone"
    }
    for key, value in given.items():
        parameter = template["parameters"].get(key)
        if parameter is None or key in _BY_RAY:
            yield f"{key}: is no parameter of Ray's azure-vm-template.json that a user gives"
        elif not isinstance(value, types[parameter["type"]]):
            yield f"{key}: {value!r} is not of type {parameter['type']}"
    if given.get("priority", "Regular") not in ("Regular", "Low", "Spot"):
        yield f"priority: {given['priority']} is none of Azure's"
    for key in sorted({"vmSize", "imagePublisher", "imageOffer", "imageSku"} - given.keys()):
        yield f"{key}: is missing"


def _cpus(node: Mapping[str, Any], is_head: bool) -> Iterator[str]:
    """Commit workers go where CPUs are: to no head, and to what its machine type has."""
    given = node["node_config"]
    if "InstanceType" in given:
        machine = given["InstanceType"]
        own = _CPUS_OF_AMAZON.get(machine.partition(".")[2])
    else:
        machine = given.get("machineType") or given["azure_arm_parameters"]["vmSize"]
        size = _CPUS.fullmatch(machine)
        own = int(size[1] or size[2]) if size else None
    expected = 0 if is_head else own
    said = node["resources"].get("CPU")
    if said != expected:
        yield f"resources: CPU {said} is not {expected}, as a node of {machine} has"
