"""Doctor checks of the Ray cluster that a commit would use: version, access to the store, room."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ray_committer.errors import RayCommitterError
from ray_committer.executors.choose import ExecutorName, choose_name, reachable_ray
from ray_committer.options import CommitOptions
from ray_committer.promises.lines import Line, Verdict
from ray_committer.promises.network_lines import examine_nodes, or_words
from ray_committer.promises.scratch import PROOF, Scratch
from ray_committer.stores.base import StoreSpec
from ray_committer.version import __version__

if TYPE_CHECKING:
    from ray_committer.executors.ray.survey import NodeAnswer, Survey


def examine_ray(
    scratch: Scratch, spec: StoreSpec, executor: ExecutorName, options: CommitOptions
) -> list[Line]:
    """Ask every node of the cluster, if a large commit with this `executor` would use one. A missing
    cluster is a failure only if Ray was requested by name."""
    name, reason = executor, "it was not requested"
    if executor == "auto":
        name, reason = choose_name(
            options,
            renames_are_local=scratch.store.capabilities.renames_are_local,
            ray=reachable_ray(),
            estimate_files=lambda: sys.maxsize,
        )
    if name != "ray":
        return [Line("ray", Verdict.NOTE, f"not used: {reason}")]
    from ray_committer.executors.ray.survey import survey

    try:
        cluster = survey(partial(read_proof, spec, scratch.proof), options)
        listings = examine_nodes(scratch, spec, partial(survey, options=options))
    except RayCommitterError as e:
        verdict = Verdict.FAILED if executor == "ray" else Verdict.NOTE
        return [Line("ray", verdict, f"not used: {e}", "start Ray, or commit with --executor threads")]
    return survey_lines(cluster, listings)


def survey_lines(cluster: Survey, listings: Sequence[Line] = ()) -> list[Line]:
    """What the answers of the nodes say, with the `listings` of the destination by each node."""
    return [_cluster(cluster), _package(cluster), _same_store(cluster), *listings, _room(cluster)]


def read_proof(spec: StoreSpec, path: str) -> bytes | str:
    """On a node: return the content of the doctor's file, or why it cannot be read there."""
    return or_words(spec, lambda store: store.read(path))


def _cluster(cluster: Survey) -> Line:
    nodes = len(cluster.answers)
    verdict = Verdict.OK if nodes else Verdict.FAILED
    advice = "" if nodes else "start Ray with CPUs on at least one node"
    return Line("ray", verdict, f"Ray {cluster.ray_version}, {nodes} nodes with CPUs", advice)


def _package(cluster: Survey) -> Line:
    wrong = [
        f"{node.node}: {node.error or f'version {node.version}'}"
        for node in cluster.answers
        if node.version != __version__
    ]
    if not wrong:
        return Line("ray package", Verdict.OK, f"ray-committer {__version__} on every node")
    advice = f"install ray-committer {__version__} on all nodes, or pass it to Ray in runtime_env"
    return Line("ray package", Verdict.FAILED, "; ".join(wrong), advice)


def _same_store(cluster: Survey) -> Line:
    blind = [f"{node.node}: {_shown(node)}" for node in cluster.answers if node.answer != PROOF]
    if not blind:
        return Line("ray sees the store", Verdict.OK, "every node reads the file that was written here")
    advice = "give all nodes the same store with the same permissions"
    return Line("ray sees the store", Verdict.FAILED, "; ".join(blind), advice)


def _shown(node: NodeAnswer) -> str:
    return str(node.error or node.answer)


def _room(cluster: Survey) -> Line:
    wanted = f"{cluster.workers} workers need {cluster.wanted_cpus:g} together"
    measured = f"{cluster.free_cpus:g} CPUs are free; {wanted}"
    if cluster.free_cpus >= cluster.wanted_cpus:
        return Line("ray cpus", Verdict.OK, measured)
    advice = "free some CPUs, or lower worker_cpus or workers: a commit would wait 30 s and then stop"
    return Line("ray cpus", Verdict.WARNING, measured, advice)
