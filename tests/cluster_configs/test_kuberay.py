"""The files for KubeRay: schemas and the operator's rules take them, and refuse a wrong one by name."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster_configs.dockerfile import image_of
from tests.cluster_configs.kuberay import cluster_of, problems
from tests.cluster_configs.pins import CONFIGS, own_image, ray_version, wrong_pins
from tests.cluster_configs.test_ray_up import changed

FILES = ("kuberay-rayjob.yaml", "kuberay-raycluster.yaml")
JOB, CLUSTER = FILES


def load(name: str) -> dict[str, Any]:
    resource: dict[str, Any] = yaml.safe_load((CONFIGS / name).read_text())
    return resource


@pytest.mark.parametrize("name", FILES)
def test_schemas_and_the_operators_rules_take_the_file(name: str):
    assert problems(load(name)) == []
    assert list(wrong_pins((CONFIGS / name).read_text())) == []


@pytest.mark.parametrize("name", FILES)
def test_all_pods_have_the_image_of_dockerfile_which_has_the_rayversion(name: str):
    cluster = cluster_of(load(name))
    assert cluster["rayVersion"] == ray_version()
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    containers = [group["template"]["spec"]["containers"][0] for group in groups]
    assert {container["image"] for container in containers} == {own_image()}
    assert ray_version() in image_of("ray")
    assert not any("command" in container for container in containers), "nothing is installed at a start"
    assert cluster["authOptions"]["mode"] == "token"


HEAD = "headGroupSpec.template.spec.containers.0"
WRONG: list[tuple[str, str, Any, str]] = [
    (JOB, "apiVersion", "ray.io/v1alpha1", "'ray.io/v1' was expected"),
    (JOB, "kind", "RayCluster", "'entrypoint'"),
    (JOB, "metadata.name", "Commit_Table", "does not match"),
    (JOB, "spec.shutdownAfterJobFinish", True, "'shutdownAfterJobFinish' was unexpected"),
    (JOB, "spec.backoffLimit", "3", "'3' is not of type 'integer'"),
    (JOB, "spec.backoffLimit", -1, "-1 is less than the minimum"),
    (JOB, "spec.activeDeadlineSeconds", 0, "0 is less than the minimum"),
    (JOB, "spec.submissionMode", "K8sJob", "'K8sJob' is not one of"),
    (JOB, "spec.submissionMode", "InteractiveMode", "is refused in InteractiveMode"),
    (JOB, "spec.shutdownAfterJobFinishes", False, "counts only with shutdownAfterJobFinishes"),
    (JOB, "spec.rayClusterSpec.rayVersion", 2.6, "2.6 is not of type 'string'"),
    (JOB, "spec.rayClusterSpec.headGroupSpec", None, "'headGroupSpec' is a required property"),
    (JOB, "spec.rayClusterSpec.authOptions.mode", "tokens", "'tokens' is not one of"),
    (JOB, f"spec.rayClusterSpec.{HEAD}.imag", "x", "('imag' was unexpected)"),
    (JOB, f"spec.rayClusterSpec.{HEAD}.command", "pip", "'pip' is not of type 'array'"),
    (JOB, "spec.entrypoint", "ray-committer comit gs://b/t", "no such command 'comit'"),
    (JOB, "spec.entrypoint", "ray-committer commit gs://b/t --executer ray", "No such option"),
    (JOB, "spec.entrypoint", "ray-committer commit gs://b/t --executor mars", "'mars' is not one of"),
    (JOB, "spec.entrypoint", "ray-commiter commit gs://b/t", "is no command of this package"),
    (JOB, "spec.rayClusterSpec.workerGroupSpecs.0.maxReplicas", 8, "without enableInTreeAutoscaling"),
    (CLUSTER, "spec.workerGroupSpec", [], "'workerGroupSpec' was unexpected"),
    (CLUSTER, "spec.workerGroupSpecs.0.minReplicas", 9, "9 <= 2 <= 8 replicas does not hold"),
    (CLUSTER, "spec.workerGroupSpecs.0.replicas", 1, "2 <= 1 <= 8 replicas does not hold"),
    (CLUSTER, "spec.workerGroupSpecs.0.maxReplicas", None, "'maxReplicas' is a required property"),
    (CLUSTER, "spec.workerGroupSpecs.0.rayStartParams.num-cpu", "2", "`ray start` has no --num-cpu"),
    (CLUSTER, "spec.headGroupSpec.rayStartParams.num-cpus", 0, "0 is not of type 'string'"),
    (
        CLUSTER,
        "spec.headGroupSpec.rayStartParams.num-cpus",
        "4",
        "commit workers would come to the head",
    ),
    (CLUSTER, "spec.enableInTreeAutoscaling", None, "counts only with enableInTreeAutoscaling"),
    (CLUSTER, "spec.autoscalerOptions.upscalingMode", "Fast", "'Fast' is not one of"),
    (CLUSTER, "spec.autoscalerOptions.idleTimeoutMinutes", 5, "'idleTimeoutMinutes' was unexpected"),
    (CLUSTER, f"spec.{HEAD}.ports.0.containerPort", "6379", "'6379' is not of type 'integer'"),
    (CLUSTER, f"spec.{HEAD}.resources.limits.memory", "8Gib", "8Gib is no quantity"),
    (CLUSTER, f"spec.{HEAD}.resources.requests.cpu", "8", "8 is asked for, more than the limit of 4"),
    (CLUSTER, f"spec.{HEAD}.resources.limits.cpu", None, "cpu: needs a request and a limit"),
    (CLUSTER, "spec.headGroupSpec.template.spec.serviceAcount", "x", "'serviceAcount' was unexpected"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path", "value", "message"), WRONG)
def test_a_wrong_copy_is_refused_and_the_reason_names_it(name: str, path: str, value: Any, message: str):
    found = problems(changed(load(name), path, value))
    assert any(message in problem for problem in found), found


def test_a_rayversion_that_is_not_the_images_is_refused():
    right = f'rayVersion: "{ray_version()}"'
    text = (CONFIGS / CLUSTER).read_text()
    assert right in text
    wrong = list(wrong_pins(text.replace(right, 'rayVersion: "2.1.0"')))
    assert wrong == [f"rayVersion 2.1.0: is not {ray_version()}"]
