"""Everything that can be wrong with a job's output, found before anything is touched.

Hadoop's committer advertises a preflight and has none: two tasks with one destination lose a file or
fail half-way. What workers checked entry by entry while loading is completed here across tasks. What is
at the destination is looked at once, after the job was declared; the commit record keeps the answer, so
that a later run is not refused because of the work of an earlier one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import (
    IncompleteJobError,
    MissingManifestsError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.options import CommittedTask
from ray_committer.protocol.fingerprints import fingerprints
from ray_committer.protocol.paths import ancestors, is_inside, join, parent
from ray_committer.protocol.record import ConflictMode, ManifestRef, ReplacedFile
from ray_committer.stages.check_items import check_items
from ray_committer.stages.check_links import check_links
from ray_committer.stages.check_places import check_destinations, in_the_way, is_taken, what_blocks
from ray_committer.stages.check_sources import sources_error
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_destinations import find_destinations
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.obstacles import noted, refuse
from ray_committer.stages.remove_replaced_files import OldData, list_replaced_files, replaced_file
from ray_committer.stages.setup_job import refuse_data
from ray_committer.stores.base import StoreOperations, Versions, first_link, list_anew

_HADOOP_ATTEMPT = re.compile(r"(attempt_.+_[mr]_\d{6,})_\d+", re.DOTALL)
"""A task attempt's id as Hadoop forms it: that of the task, and the attempt's number."""


@dataclass(frozen=True, slots=True)
class OldFiles:
    """Old files: `replaced` are removed in the end, `overwritten` give way to one of the same name, and
    those that are `blocking` go before the directories are made in whose place they are.

    `destinations` are directories where the job writes in which other jobs were set up.
    """

    replaced: tuple[ReplacedFile, ...] = ()
    overwritten: tuple[ReplacedFile, ...] = ()
    blocking: tuple[ReplacedFile, ...] = ()
    destinations: tuple[str, ...] = ()


def preflight(context: JobContext, loaded: LoadedManifests) -> None:
    """Check the whole job; changes nothing. `PreflightError` or `MissingManifestsError` name what is
    wrong."""
    _check_complete(context, loaded)
    _check_attempts_differ(context, loaded.manifests)
    _check_tasks_differ(context, loaded.manifests)
    _check_unique(context, loaded)


def look_at_data(
    context: JobContext,
    loaded: LoadedManifests,
    replaced_roots: tuple[str, ...],
    allowed_roots: tuple[str, ...] = (),
) -> OldFiles:
    """Look at what is where the job writes; changes nothing.

    One error names all that stands in its way, also sources that are wrong, which the manifests were
    loaded with: a `ManifestError`, `PreflightError` or `CommitConflictError`. What is replaced goes only
    after all that is new is in place, so what stands where a directory must be made does, too.
    """
    mode, destination = context.options.mode, context.job.destination
    wrong = loaded.wrong_sources
    errors: list[RayCommitterError] = [sources_error(wrong)] if wrong else []
    data: list[RayCommitterError] = []
    if mode is ConflictMode.ERROR:
        with noted(data):
            refuse_data(context.store, destination)
    roots = (replaced_roots or (destination,)) if mode is ConflictMode.OVERWRITE else ()
    directories = context.executor.directories.share(0, 1)
    own = [destination] if loaded.fills_destination else []
    seen = check_destinations(context, loaded.manifests, [*own, *directories], roots)
    errors += [*data, *seen.errors]
    with noted(errors):
        errors += check_links(context, loaded.manifests)
    old = OldData()
    with noted(errors):
        old = list_replaced_files(context, roots)
    written = _written_again(context, loaded, old)
    errors += check_items(context, loaded.manifests, seen.held, old.files, written)
    needed = _with_ancestors(directories) if context.store.capabilities.has_directories else set()
    blocking = seen.blocking | _blocked_by_old(context, old, needed)
    deleted = _to_be_deleted(context, blocking, (destination, *allowed_roots))
    left = {path: blocking[path] for path in blocking.keys() - {file.path for file in deleted}}
    taken = _taken_by_old(old, written) | seen.taken | left
    if data:  # which is why, and need not be named
        taken = {path: taken[path] for path in taken if not is_inside(path, destination)}
    if taken:
        errors.append(is_taken(taken))
    refuse(errors)
    others = {*seen.others, *old.destinations} - {destination}
    return OldFiles(
        tuple(file for file in old.files if file.path not in written | blocking.keys()),
        tuple(file for file in old.files if file.path in written),
        deleted,
        tuple(sorted(others)),
    )


def _check_complete(context: JobContext, loaded: LoadedManifests) -> None:
    found, directory = len(loaded.manifests), context.job.manifests
    expected = context.options.expected_tasks
    if expected is not None and found < expected:
        raise MissingManifestsError(
            f"{directory}: {expected} tasks succeeded but {found} manifests are here; another job's "
            f"clean-up may have deleted the others, or tasks are still running"
        )
    if expected is not None and found > expected:
        raise PreflightError(f"{directory}: {expected} tasks were expected, {found} manifests found")
    if found == 0:
        raise IncompleteJobError(
            f"{directory}: holds no task manifest; a job without output still has one a task, so "
            f"its tasks did not commit through this protocol"
        )
    if expected is None and not context.options.assume_complete:
        raise IncompleteJobError(
            f"{directory}: {found} tasks have committed, but nobody can see from the store whether "
            f"that is all of them; say so with --expect-tasks N or --assume-complete"
        )
    if context.options.committed_tasks is not None:
        _check_attempts(context, loaded.manifests, context.options.committed_tasks)


def _check_attempts(
    context: JobContext, manifests: Sequence[ManifestRef], tasks: Sequence[CommittedTask]
) -> None:
    loaded = {CommittedTask(ref.name, ref.digest, ref.task_attempt_id) for ref in manifests}
    wrong = sorted(task.manifest for task in loaded ^ set(tasks))
    if not wrong:
        return
    if len(loaded) < len(tasks):
        raise MissingManifestsError(
            f"{context.job.manifests}: {len(tasks)} tasks committed, {len(loaded)} manifests are "
            f"here; missing or different: {', '.join(wrong[:5])}"
        )
    raise PreflightError(
        f"{join(context.job.manifests, wrong[0])}: is not what the successful task attempt saved "
        f"(another attempt replaced it?); run the job again"
    )


def _check_attempts_differ(context: JobContext, manifests: Sequence[ManifestRef]) -> None:
    """Refuse two manifests of one task attempt, since each file can be moved only once."""
    seen: dict[str, str] = {}
    for ref in manifests:
        usual = ref.task_attempt_id and context.job.task_attempt(ref.task_attempt_id)
        attempt = ref.task_attempt_directory or usual
        if attempt is not None and seen.setdefault(attempt, ref.name) != ref.name:
            raise PreflightError(
                f"{join(context.job.manifests, ref.name)}: is of task attempt {attempt}, as is "
                f"{seen[attempt]}; remove the one that is a copy"
            )


def _check_tasks_differ(context: JobContext, manifests: Sequence[ManifestRef]) -> None:
    """Refuse two attempts of one task, which hold the same rows: only its driver knows which counts."""
    seen: dict[str, str] = {}
    for ref in manifests:
        found = _HADOOP_ATTEMPT.fullmatch(ref.task_attempt_id or "")
        if found is not None and seen.setdefault(found[1], ref.name) != ref.name:
            raise PreflightError(
                f"{join(context.job.manifests, ref.name)}: is of the same task as {seen[found[1]]}, so "
                f"its rows would be there twice, and only the job's driver knew which counts; abort the "
                f"job and run it again"
            )


def _check_unique(context: JobContext, loaded: LoadedManifests) -> None:
    """Refuse one destination of two files, and a file where another file needs a directory."""
    directories = context.executor.directories
    suspects = directories.repeated()
    if not suspects:
        return
    claims: dict[str, list[str]] = defaultdict(list)
    for path in directories.find(suspects):
        claims[path].append("a directory of the output")
    for path, manifest in find_destinations(context, loaded.manifests, suspects):
        claims[path].append(manifest)
    for path, claimants in sorted(claims.items()):
        if len(claimants) > 1:
            raise PreflightError(
                f"{path}: would be written more than once, by {' and '.join(sorted(claimants))}; "
                f"let tasks use names of their own"
            )


def _written_again(context: JobContext, loaded: LoadedManifests, old: OldData) -> frozenset[str]:
    """The old files whose very names the job writes again, and the directories of old data likewise."""
    names = {file.path for file in old.files}
    if context.store.capabilities.has_directories:
        names.update(old.directories)
    suspects = context.executor.directories.written(fingerprints(names)) if names else frozenset()
    if not suspects:
        return frozenset()
    written = {path for path, _ in find_destinations(context, loaded.manifests, suspects)}
    return frozenset(names & written)


def _taken_by_old(old: OldData, written: frozenset[str]) -> dict[str, str]:
    """What old data stands, by path and in words, where a file of the job must go."""
    files = {file.path for file in old.files}
    return dict.fromkeys(written - files, "is a directory where the job needs a file")


def _blocked_by_old(context: JobContext, old: OldData, needed: set[str]) -> dict[str, str]:
    """What old data stands, by path and in words, where one of the `needed` directories must go: these
    are made before it goes."""
    files = {file.path for file in old.files}
    blocking = {path: in_the_way(context.store, path) for path in files & needed}
    for root in needed.intersection(old.no_directories):
        blocking |= what_blocks(context.store, root)
    return blocking


def _to_be_deleted(
    context: JobContext, blocking: Collection[str], roots: Sequence[str]
) -> tuple[ReplacedFile, ...]:
    """Of what is in the way of directories, that which the job may delete: below its `roots`, and not
    behind a link, where others may write; on a store that does so in one step."""
    capabilities = context.store.capabilities
    is_safe = capabilities.sets_aside or capabilities.versions is not Versions.NONE
    if not (context.options.delete_blocking_files and is_safe):
        return ()
    paths = [path for path in sorted(blocking) if _is_own(context.store, path, roots)]
    parents = sorted({parent(path) for path in paths})
    listed = context.at_once(partial(list_anew, context.store), parents)
    found = {one.path: one for statuses in listed for one in statuses}
    there = [found[path] for path in paths if path in found and not found[path].is_directory]
    return tuple(map(replaced_file, there))


def _is_own(store: StoreOperations, path: str, roots: Sequence[str]) -> bool:
    """Whether `path` is below one of the `roots`, with no link between."""
    between = (
        {parent(path), *ancestors(path, root)} - {root} for root in roots if is_inside(path, root)
    )
    return any(first_link(store, above) is None for above in between)


def _with_ancestors(directories: Collection[str]) -> set[str]:
    return {*directories, *(above for path in directories for above in ancestors(path, "/"))}
