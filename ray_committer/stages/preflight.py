"""Find everything that is wrong with a job's output before anything is changed.

Hadoop's committer announces a preflight but has none. Workers check each entry while they load; this
module adds the checks across tasks. The destination is checked once, after the declaration, and the
record keeps the result, so that a later run is not refused because of the work of an earlier run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ray_committer.errors import (
    PreflightError,
    RayCommitterError,
    mark,
)
from ray_committer.places.choose import needed
from ray_committer.protocol.fingerprints import fingerprints
from ray_committer.protocol.paths import ancestors, is_within, parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.stages.checks.items import check_items
from ray_committer.stages.checks.known_directories import know_directories
from ray_committer.stages.checks.manifests import check_complete, check_differ
from ray_committer.stages.checks.obstacles import noted, refuse
from ray_committer.stages.checks.permissions import check_links, check_removals
from ray_committer.stages.checks.places import (
    check_destinations,
    check_file_systems,
    find_other_destinations,
    is_blocked,
    is_taken,
    refuse_linked_directories,
)
from ray_committer.stages.checks.uploads import check_uploads
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.note_new_directories import MOST_NOTED
from ray_committer.stages.old_data.list_replaced_files import OldData, list_replaced_files
from ray_committer.stages.old_data.mode_roots import ModeRoots
from ray_committer.stages.old_data.read_files import list_read_files
from ray_committer.stages.setup_job import data_error
from ray_committer.work.directory import in_the_way, look_at


@dataclass(frozen=True, slots=True)
class OldFiles:
    """The old files that give way to the job. `replaced` files are removed at the end. `overwritten`
    files are replaced by new files of the same name. `emptied` directories are removed at the end if
    they are empty then. `success` is the ``_SUCCESS`` of an earlier job. `destinations` are directories
    in which other jobs were set up, among those where the job writes."""

    replaced: tuple[ReplacedFile, ...] = ()
    overwritten: tuple[ReplacedFile, ...] = ()
    emptied: tuple[str, ...] = ()
    success: ReplacedFile | None = None
    destinations: tuple[str, ...] = ()
    there: frozenset[str] = frozenset()
    """The directories that the job writes to and that exist, as far as they were seen."""
    missing: frozenset[str] = frozenset()
    """Of the others and of those above them, the ones that were seen not to be there; of too many to be
    noted, only those right above others."""


def preflight(context: JobContext, loaded: LoadedManifests, allowed_roots: Sequence[str] = ()) -> None:
    """Check the whole job; changes nothing. `PreflightError`, `ManifestError` or `MissingManifestsError`
    if something is wrong. `allowed_roots` are directories outside the destination where it can write."""
    # Completeness first: with manifests missing, each later check would speak of a part of the job (R4).
    check_complete(context, loaded.manifests)
    check_differ(context, loaded.manifests)
    _check_unique(context, loaded)
    check_uploads(context, loaded.packs, allowed_roots)


def look_at_data(
    context: JobContext,
    loaded: LoadedManifests,
    roots: ModeRoots,
    before: Sequence[ClaimInFlight] = (),
    *,
    allowed_roots: Sequence[str] = (),
) -> OldFiles:
    """Check the places that the job writes to, also those in `allowed_roots`; changes nothing. `before`
    are the claims of other jobs in flight before the job's own. One error names all obstacles, also the
    wrong sources in `loaded`: a `ManifestError`, `PreflightError` or `CommitConflictError`. An old file
    in the place of a new directory is one, since old data is removed last."""
    destination = context.job.destination
    # Collected, not raised one by one: a job of hours would find the next one after each repair (D5).
    errors: list[RayCommitterError] = [*loaded.source_errors]
    directories = context.executor.directories.share(0, 1)
    written_to = [*([destination] if loaded.fills_destination else []), *directories]
    known = know_directories(context, directories, roots)
    places = check_destinations(context, loaded.packs, written_to, roots, known, before)
    if places.data:
        errors.append(data_error(places.data))
    with noted(errors):
        check_file_systems(context, directories)
    errors += places.errors
    with noted(errors):
        refuse_linked_directories(context, directories, (destination, *allowed_roots))
    with noted(errors):
        check_links(context, loaded.packs)
    old = OldData()
    with noted(errors):
        old = _old_data(context, [root for root in roots.replaced if root not in known.new])
        check_removals(context, (file.path for file in old.files))
    written = _written_again(context, loaded, old)
    with noted(errors):
        check_items(context, loaded.packs, written_to, places.held, old.files, written, before)
    # What the commit will make: an old file there is in its way, although it is to be removed (R9).
    gives_way = bool(roots.replaced) or old != OldData()  # a set of 100,000 paths takes 4 MB
    made = set(needed(context.store, directories if gives_way else ()))
    made |= {above for path in made for above in ancestors(path, "/")}
    blocking = places.blocking | _blocked_by_old(context, old, made)
    taken = _taken(places.taken, old, written)
    # Names in a directory that holds data are not listed: the error about the data covers them.
    if blocking := _without_covered(blocking, places.data):
        errors.append(is_blocked(context.store, blocking))
    if taken := _without_covered(taken, places.data):
        errors.append(is_taken(taken))
    refuse(errors)
    below = set(old.listed)  # a directory that these listings do not show is new
    replaced = set(roots.replaced) if below else set[str]()
    new = known.new
    if replaced:
        new = new.union(path for path in made if path not in below and is_within(path, replaced))
    asked = [path for path in directories if not is_within(path, below)]
    elsewhere = {*find_other_destinations(context, asked, known, places.listed, allowed_roots)}
    elsewhere |= {*places.others, *old.destinations} - {destination}
    return OldFiles(
        tuple(file for file in old.files if file.path not in written),
        tuple(file for file in old.files if file.path in written),
        _emptied(context, old, roots.replaced, made),
        destinations=tuple(sorted(elsewhere)),
        there=frozenset({*known.there, *places.there, *old.there}.intersection(directories)),
        missing=new if len(new) <= MOST_NOTED else new.intersection(map(parent, directories)),
    )


def _check_unique(context: JobContext, loaded: LoadedManifests) -> None:
    """Refuse two files with one destination, and a file in the place of another file's directory."""
    directories = context.executor.directories
    # Two paths can have one fingerprint: suspects, mostly none, are compared by their names.
    suspects = directories.repeated()
    if not suspects:
        return
    claims: dict[str, list[str]] = defaultdict(list)
    for path in directories.find(suspects):
        claims[path].append("a directory of the output")
    for path, source in find_destinations(context, loaded.packs, suspects):
        claims[path].append(source)
    for path, claimants in sorted(claims.items()):
        if len(claimants) > 1:
            raise PreflightError(
                f"{mark(path)}: would be written more than once, by {' and '.join(sorted(claimants))}",
                "let each task use its own file names",
            )


def _old_data(context: JobContext, roots: Sequence[str]) -> OldData:
    work = context.options.table_work
    if work is not None and work.names_files:
        return list_read_files(context, work)
    return list_replaced_files(context, roots)


def _without_covered(problems: dict[str, str], data: Mapping[str, str]) -> dict[str, str]:
    """The problems that are not in directories that the error about `data` names."""
    return {path: what for path, what in problems.items() if not is_within(parent(path), data.keys())}


def _written_again(context: JobContext, loaded: LoadedManifests, old: OldData) -> frozenset[str]:
    """The old files and directories with the same paths as new files of the job."""
    names = {file.path for file in old.files}
    names.update(needed(context.store, old.directories))
    suspects = context.executor.directories.written(fingerprints(names)) if names else frozenset()
    if not suspects:
        return frozenset()
    written = {path for path, _ in find_destinations(context, loaded.packs, suspects)}
    return frozenset(names & written)


def _taken(taken: dict[str, str], old: OldData, written: frozenset[str]) -> dict[str, str]:
    """What is in the place of new files, by path: old directories, and what is no old data."""
    files = {file.path for file in old.files}
    by_old = dict.fromkeys(written - files, "is a directory where the job needs a file")
    return by_old | {path: what for path, what in taken.items() if path not in files}


def _blocked_by_old(context: JobContext, old: OldData, made: set[str]) -> dict[str, str]:
    """The old files where directories are made before old data goes, as problems by path."""
    files = {file.path for file in old.files}
    blocking = {path: in_the_way(context.store, path) for path in files & made}
    for root in made.intersection(old.no_directories):
        blocking |= look_at(context.store, root).blocking
    return blocking


def _emptied(
    context: JobContext, old: OldData, roots: Collection[str], made: Collection[str]
) -> tuple[str, ...]:
    """The replaced directories, but for the destination, into which the job writes nothing."""
    # The destination stays, also if it is empty then: readers and later jobs expect it.
    kept = {context.job.destination, *made, *old.no_directories}
    return needed(context.store, sorted({*old.directories, *roots} - kept))
