"""Plan which directories of the output go whole, from the look at the files of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ray_committer.places.choose import needed
from ray_committer.protocol.paths import STAGED, join, parent
from ray_committer.protocol.whole import ByFile, WholePlan, plan_whole
from ray_committer.stages.checks.sources import SourcesLook, look_at_sources
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import StoreOperations


def plan_moves(
    context: JobContext, look: SourcesLook, there: Collection[str] = (), *, moves_here: bool
) -> WholePlan:
    """Which of the directories that the coordinator has collected go whole, if anything `moves_here`;
    some were `there` before. Rights are not compared yet. Where a store needs no directories, none is
    counted."""
    if not needed(context.store, (context.job.destination,)):
        return WholePlan()
    if not (moves_here and look.is_done):
        leaves = context.executor.directories.plan()
        return WholePlan(by_file=Counter({ByFile.NOT_HERE: leaves} if leaves else {}))
    directories = context.executor.directories.share(0, 1)
    plan = plan_whole(
        look.sources, look.verdicts, context.job.destination, directories, frozenset(there)
    )
    return replace(plan, rights=look.rights)


def plan_again(context: JobContext, loaded: LoadedManifests) -> WholePlan:
    """Plan what goes whole of a job that another run has recorded, and may have moved in part."""
    is_frozen = context.job.is_frozen
    look = look_at_sources(context, loaded, may_be_missing=True) if is_frozen else SourcesLook()
    return with_same_rights(context, plan_moves(context, look, moves_here=is_frozen))


def with_same_rights(
    context: JobContext, plan: WholePlan, missing: Collection[str] = (), *, is_dry_run: bool = False
) -> WholePlan:
    """This plan without directories that would have other rights if they were made, or rights that are
    not known; these may be equal in a dry run, which has written nothing by which a store shows its
    user, unless the kernel knows that. Some directories above them are seen to be `missing`. The driver
    asks, since it has written."""
    may_be_equal = is_dry_run and not context.store.capabilities.renames_are_local
    above: dict[str, str] = {}
    for move in plan.moves:
        path = place = parent(move.dest)
        while path not in above and place in missing:
            place = parent(place)
        above.setdefault(path, place)
    if not above:
        return plan
    places = [join(context.job.tasks, STAGED), *sorted({*above.values()})]
    answers = context.at_once(lambda path: _rights_below(context.store, path), places)
    made = dict(zip(places, answers, strict=True))
    # A listing may not show the access lists of sources, which they have got from above.
    is_known = answers[0] is not None or may_be_equal

    def is_like(source: str, dest: str) -> bool:
        here = made[above[parent(dest)]]
        return may_be_equal if here is None else is_known and plan.rights.of(source) == here

    return plan.without({move.dest for move in plan.moves if not is_like(move.source, move.dest)})


def _rights_below(store: StoreOperations, path: str) -> str | None:
    """The rights of what is made in a directory, or in the nearest above it that exists."""
    try:
        rights = store.rights_below(path)
        while rights is None and path != "/" and store.get_status(path) is None:
            path = parent(path)
            rights = store.rights_below(path)
    except OSError:  # it is no reason to fail
        return None
    return rights
