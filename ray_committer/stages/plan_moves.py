"""Plan which directories of the output go whole, from the look at the files of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ray_committer.places.choose import needed
from ray_committer.protocol.whole import ByFile, WholePlan, plan_whole
from ray_committer.stages.checks.sources import SourcesLook
from ray_committer.stages.context import JobContext


def plan_moves(
    context: JobContext, look: SourcesLook, there: Collection[str] = (), *, moves_here: bool
) -> WholePlan:
    """Which of the directories that the coordinator has collected go whole, if anything `moves_here`;
    some were `there` before. Where a store needs no directories, none is counted."""
    directories = context.executor.directories
    if not needed(context.store, (context.job.destination,)):
        return WholePlan()
    if not (moves_here and look.is_done):
        return WholePlan(by_file=Counter({ByFile.NOT_HERE: directories.plan()}))
    return plan_whole(look.sources, look.verdicts, directories.share(0, 1), frozenset(there))
