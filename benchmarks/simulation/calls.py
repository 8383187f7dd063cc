"""The calls of a step: shards of files, or batches of what else there is, as real commits cut them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ray_committer.jobs.estimate import MKDIRS
from ray_committer.protocol.plan import ShardSizes, batch_sizes
from ray_committer.stages.create_output_directories import CLAIM

from .inputs import Setup
from .steps import Step

MOST_CALLS = 4_000
"""If a step has more calls, several that follow one another are simulated as one, until few are left."""
CALLS_A_LANE = 20
"""But so many calls are simulated for each lane, so that the last ones end as real ones do."""

FIRST_CALLS_A_LANE = 2
"""The first calls are simulated one by one: from them the commit learns how large shards can be."""


@dataclass(slots=True)
class Call:
    """Some items for a lane, in a number of real `calls`; a lost worker has done a share of them."""

    items: int
    calls: int
    done: float = 0.0


class Calls:
    """What is left of a step, cut into calls."""

    def __init__(self, step: Step, setup: Setup) -> None:
        self._left = step.items
        self._singly = FIRST_CALLS_A_LANE * setup.lanes
        self._most = max(MOST_CALLS, CALLS_A_LANE * setup.lanes)
        self._shards: ShardSizes | None = None
        if step.are_files:
            self._shards = ShardSizes(
                files=step.items, threads=setup.threads, width=setup.lanes, differ=bool(setup.workers)
            )
        self._size = self._shards.next if self._shards else _sizes(step, setup)

    def next(self) -> Call | None:
        """The next call; None if nothing is left."""
        items = calls = 0
        wanted = 1
        while self._left and calls < wanted:
            size = min(self._left, self._size(self._left))
            self._left -= size
            items, calls = items + size, calls + 1
            wanted = 1 if self._singly > 0 else max(1, int(self._left / size / self._most))
        self._singly -= 1
        return Call(items, calls) if calls else None

    def learn(self, seconds: float) -> None:
        """Note how long an item took a thread."""
        if self._shards is not None:
            self._shards.learn(seconds)


def _sizes(step: Step, setup: Setup) -> Callable[[int], int]:
    """The sizes of the batches of a step that has no files."""
    threads, width = setup.threads, setup.lanes
    if MKDIRS in step.each:
        share = -(-step.items // width)
        claim = max(1, min(CLAIM, max(share // 4, min(threads, share))))
        return lambda _: claim
    sizes = batch_sizes(step.items, threads=threads, width=width)
    return lambda _: next(sizes)
