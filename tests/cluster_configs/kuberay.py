"""What is wrong with a RayJob or RayCluster: by schemas, by KubeRay's operator, and by ours.

The fields are in schemas/kuberay.json, pod templates are checked by Kubernetes' schemas, the parameters
of ``ray start`` and the entry point by the commands themselves. Source: KubeRay's validation.go.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import click
import kubernetes_validate
from ray.scripts.scripts import start

from ray_committer.cli.main import main
from tests.cluster_configs.schema import schema_problems

KUBERNETES = ("1.29", "1.37")

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_UNITS = {"m": 0.001, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", start=1)}
_START = {name for option in start.params for name in option.opts}


def problems(resource: Mapping[str, Any]) -> list[str]:
    """A sentence for each; none for what ``kubectl apply`` and KubeRay's operator would take."""
    if found := list(schema_problems(resource, "kuberay.json")):
        return found
    spec = resource["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    return [*_job(spec), *_groups(cluster), *_head(cluster)]


def cluster_of(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cluster that either kind describes."""
    cluster: Mapping[str, Any] = resource["spec"].get("rayClusterSpec", resource["spec"])
    return cluster


def command_problems(command: str) -> Iterator[str]:
    """What is wrong with a command line of ``ray-committer``; nothing is run."""
    program, *words = shlex.split(command)
    if program != "ray-committer":
        yield f"{command}: is no command of this package"
        return
    try:
        name, found, rest = main.resolve_command(click.Context(main), words)
        assert found is not None
        found.make_context(name, list(rest))
    except click.ClickException as e:
        yield f"{command}: {e.format_message()}"


def _job(spec: Mapping[str, Any]) -> Iterator[str]:
    if "entrypoint" in spec:
        yield from command_problems(spec["entrypoint"])
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        yield "ttlSecondsAfterFinished: counts only with shutdownAfterJobFinishes"
    if spec.get("submissionMode") == "InteractiveMode" and spec.get("backoffLimit"):
        yield "backoffLimit: is refused in InteractiveMode"


def _head(cluster: Mapping[str, Any]) -> Iterator[str]:
    if cluster["headGroupSpec"]["rayStartParams"].get("num-cpus") != "0":
        yield "headGroupSpec: num-cpus is not 0, so commit workers would come to the head"
    if cluster.get("autoscalerOptions") and not cluster.get("enableInTreeAutoscaling"):
        yield "autoscalerOptions: counts only with enableInTreeAutoscaling"


def _groups(cluster: Mapping[str, Any]) -> Iterator[str]:
    autoscaled = cluster.get("enableInTreeAutoscaling", False)
    yield from _group("headGroupSpec", cluster["headGroupSpec"])
    for group in cluster["workerGroupSpecs"]:
        name = f"workerGroupSpecs {group['groupName']}"
        yield from _group(name, group)
        low, high = group["minReplicas"], group["maxReplicas"]
        if not low <= group.get("replicas", low) <= high:
            yield f"{name}: {low} <= {group.get('replicas', low)} <= {high} replicas does not hold"
        if low < high and not autoscaled:
            yield f"{name}: nothing changes the replicas without enableInTreeAutoscaling"


def _group(name: str, group: Mapping[str, Any]) -> Iterator[str]:
    for parameter in group["rayStartParams"]:
        if f"--{parameter}" not in _START:
            yield f"{name}: `ray start` has no --{parameter}"
    template = {"apiVersion": "v1", "kind": "PodTemplate", "template": group["template"]}
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(template, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            where = ".".join(str(part) for part in e.path)
            yield f"{name}: Kubernetes {version}: {where}: {e.message}"
            return
    for container in group["template"]["spec"]["containers"]:
        yield from (f"{name}: {problem}" for problem in _resources(container.get("resources", {})))


def _resources(resources: Mapping[str, Any]) -> Iterator[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for kind in ("cpu", "memory"):
        if kind not in requests or kind not in limits:
            yield f"{kind}: needs a request and a limit, by which Ray knows what a pod has"
            continue
        asked, most = _quantity(requests[kind]), _quantity(limits[kind])
        if asked is None or most is None:
            yield f"{kind}: {requests[kind]} or {limits[kind]} is no quantity"
        elif asked > most:
            yield f"{kind}: {requests[kind]} is asked for, more than the limit of {limits[kind]}"


def _quantity(text: str) -> float | None:
    found = _QUANTITY.fullmatch(str(text))
    return float(found[1]) * _UNITS[found[2] or ""] if found else None
