"""Plan which directories of the output go whole, from the look at the files of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from ray_committer.places.choose import needed
from ray_committer.protocol.paths import parent
from ray_committer.protocol.whole import AS_NAMED, ByFile, Move, WholePlan, plan_whole
from ray_committer.stages.checks.sources import SourcesLook
from ray_committer.stages.context import JobContext
from ray_committer.work.worker import Worker


def plan_moves(
    context: JobContext,
    look: SourcesLook,
    there: Collection[str] = (),
    missing: Collection[str] = (),
    *,
    moves_here: bool,
) -> WholePlan:
    """Which of the directories that the coordinator has collected go whole, if anything `moves_here`;
    some were `there` before, and some above them `missing`. Where a store needs no directories, none is
    counted."""
    if not needed(context.store, (context.job.destination,)):
        return WholePlan()
    if not (moves_here and look.is_done):
        leaves = context.executor.directories.plan()
        return WholePlan(by_file=Counter({ByFile.NOT_HERE: leaves} if leaves else {}))
    directories, known = context.executor.directories.share(0, 1), frozenset(there)
    plan = plan_whole(look.sources, look.verdicts, directories, known)
    unlike = _unlike(context, look, plan.moves, frozenset(missing))
    return plan_whole(look.sources, look.verdicts, directories, known, unlike) if unlike else plan


def _unlike(
    context: JobContext, look: SourcesLook, moves: Sequence[Move], missing: Collection[str]
) -> set[str]:
    """The directories that would have other rights if they were made than the sources for them have."""
    above: dict[str, str] = {}
    for move in moves:
        path = place = parent(move.dest)
        while path not in above and place in missing:
            place = parent(place)
        above.setdefault(path, place)
    answers = context.run_batches(_rights_below, sorted({*above.values()}))
    made = dict(chain.from_iterable(answers))
    return {
        move.dest
        for move in moves
        # A source that is gone was compared before it was moved.
        if not look.verdicts.get(move.source, AS_NAMED).is_missing
        and (made.get(above[parent(move.dest)]) or "not known") != look.rights_of(move.source)
    }


def _rights_below(worker: Worker, paths: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """Work: the rights of what would be made in some directories, or in the nearest that exist."""

    def ask(path: str) -> tuple[str, str | None]:
        try:
            place, rights = path, worker.store.rights_below(path)
            while rights is None and place != "/" and worker.store.get_status(place) is None:
                place = parent(place)
                rights = worker.store.rights_below(place)
        except OSError:  # nothing is refused because of that
            return path, None
        return path, rights

    return list(worker.map(ask, paths))
