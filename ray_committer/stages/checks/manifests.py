"""Check that all tasks of a job have saved a manifest, and each of them one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from ray_committer.errors import (
    IncompleteJobError,
    MissingManifestsError,
    PreflightError,
    mark,
)
from ray_committer.options import CommittedTask
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.paths import join
from ray_committer.protocol.staging import task_of
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_manifests import replaced_manifest


def check_complete(context: JobContext, manifests: Collection[ManifestRef]) -> None:
    """Refuse manifests that are not of all tasks, or of other attempts than count."""
    number, directory = len(manifests), context.job.manifests
    expected = context.options.expected_tasks
    # Too few is its own error: Spark's driver knows of all, so somebody has deleted manifests.
    if expected is not None and number < expected:
        raise MissingManifestsError(
            f"{mark(directory)}: {expected} tasks succeeded but only {number} manifests are here",
            "nothing was "
            "changed: wait if tasks are still running, or, if another job's clean-up may have deleted "
            "the others, run the application again",
        )
    if expected is not None and number > expected:
        raise PreflightError(
            f"{mark(directory)}: {expected} tasks were expected but {number} manifests found",
            "nothing was changed: correct the number of tasks, or find out which manifests are too many",
        )
    if number == 0:
        raise IncompleteJobError(
            f"{mark(directory)}: contains no task manifest, but each task saves one, even without "
            "output",
            "nothing was changed: no task has committed with this protocol, so check the application",
        )
    if expected is None and not context.options.assume_complete:
        raise IncompleteJobError(
            f"{mark(directory)}: {number} tasks have committed, but the store does not show whether "
            "these are all tasks",
            "if they are, give --expect-tasks N or --assume-complete",
        )
    # The number can be right and an attempt wrong: a slower one may have saved its manifest (R1).
    if context.options.committed_tasks is not None:
        _check_attempts(context, manifests, context.options.committed_tasks)


def _check_attempts(
    context: JobContext, manifests: Collection[ManifestRef], tasks: Sequence[CommittedTask]
) -> None:
    named = {(task.manifest, task.digest, task.task_attempt_id) for task in tasks}
    unnamed = set()
    for ref in manifests:
        loaded = ref.name, ref.digest, ref.task_attempt_id
        if loaded in named:
            named.remove(loaded)
        else:
            unnamed.add(loaded)
    wrong = sorted(name for name, *_ in named | unnamed)
    if not wrong:
        return
    if len(manifests) < len(tasks):
        raise MissingManifestsError(
            f"{mark(context.job.manifests)}: {len(tasks)} tasks committed but only {len(manifests)} "
            f"manifests are here (missing or different: {', '.join(wrong[:5])})"
        )
    raise replaced_manifest(join(context.job.manifests, wrong[0]))


def check_differ(context: JobContext, manifests: Collection[ManifestRef]) -> None:
    """Refuse two manifests of one task attempt, because each file can be moved only once; and two
    attempts of one task: both hold its rows, and only its driver knows which counts."""
    tasks = f"{context.job.with_tasks_in().tasks}/"

    def attempt(ref: ManifestRef) -> str:  # its own id, where it can be: 100,000 paths take 15 MB
        directory = ref.task_attempt_directory
        return (ref.task_attempt_id or "") if directory is None else directory.removeprefix(tasks)

    for first, second in _pairs(manifests, attempt):
        raise PreflightError(
            f"{mark(join(context.job.manifests, second.name))}: belongs to task attempt "
            f"{mark(second.task_attempt_directory or tasks + attempt(second))}, as does {first.name}",
            "remove the one that is a copy",
        )

    def task(ref: ManifestRef) -> str:
        return task_of(ref.task_attempt_id or "") or ""

    for first, second in _pairs(manifests, task):
        raise PreflightError(
            f"{mark(join(context.job.manifests, second.name))}: belongs to the same task as "
            f"{first.name}, so its rows would appear twice, and only the job's driver knew which one "
            "counts",
            "abort the job and run it again",
        )


def _pairs(
    manifests: Collection[ManifestRef], key: Callable[[ManifestRef], str]
) -> Iterator[tuple[ManifestRef, ManifestRef]]:
    """Neighbours with one `key`, unless that is empty. First only hashes of keys are compared, because a
    hundred thousand keys take megabytes."""
    hashes = sorted(array("q", map(hash, filter(None, map(key, manifests)))))
    shared = {first for first, second in pairwise(hashes) if first == second}
    suspects = sorted((ref for ref in manifests if hash(key(ref)) in shared), key=key) if shared else []
    for first, second in pairwise(suspects):
        if key(first) == key(second) != "" and first.name != second.name:
            yield first, second
