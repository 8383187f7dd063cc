"""What the renames of a job have done so far, and whether that is all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.events import ShardRenamed
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics, aggregate, count
from ray_committer.protocol.paths import join
from ray_committer.protocol.plan import count_by_pack
from ray_committer.protocol.whole import ByFile
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests


@dataclass(slots=True)
class Renamed:
    """The result of the stage: files moved now, and files proved to have been moved before, by proof.
    `spans` number the files of the job in shards of which each file was moved or proved. For other
    shards, `done_by_pack` and `held_by_pack` count the files of each pack. So many `directories` were
    moved whole, with `whole_files`, from the sources `in_place`, which are named if other files follow;
    the other directories are counted `by_file`."""

    moved: int = 0
    bytes: int = 0
    proved: Counter[str] = field(default_factory=Counter)
    spans: list[tuple[int, int]] = field(default_factory=list)
    done_by_pack: Counter[int] = field(default_factory=Counter)
    held_by_pack: Counter[int] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    """The old files in the places of new ones that cannot be moved, and why."""
    directories: int = 0
    whole_files: int = 0
    in_place: frozenset[str] = frozenset()
    passed_over: int = 0
    """The files that are in these sources by the packs, which shards have passed over."""
    by_file: Counter[ByFile] = field(default_factory=Counter)

    @property
    def files(self) -> int:
        return self.moved + self.proved.total()

    def add(self, event: ShardRenamed) -> None:
        """Add what a shard has moved or proved."""
        self.moved += event.moved
        self.bytes += event.bytes
        self.proved.update(event.proved)

    @property
    def statistics(self) -> IOStatistics:
        """The counters of the moved files."""
        statistics = count(names.FILES_COMMITTED, self.files)
        statistics = aggregate(statistics, count(names.BYTES_COMMITTED, self.bytes))
        if recovered := self.proved.total():
            statistics = aggregate(statistics, count(names.RENAME_RECOVERED, recovered))
        return statistics


def reconcile(context: JobContext, loaded: LoadedManifests, renamed: Renamed) -> None:
    """Check for each pack that all its files were moved, proved or held back, alone or with their
    directories; and that these directories held what shards have passed over."""
    if renamed.passed_over != renamed.whole_files:
        raise CommitStateUnknownError(
            f"{mark(context.job.packs)}: names {renamed.passed_over} files of directories that were "
            f"moved whole, but these held {renamed.whole_files}",
            "nothing was cleaned up, so run the same command again",
        )
    partial_counts = renamed.done_by_pack + renamed.held_by_pack
    if not partial_counts and are_all(renamed.spans, loaded.files):
        return
    # A shard that was counted twice must not stand for one that is missing.
    is_twice = any(first[1] > then[0] for first, then in pairwise(sorted(renamed.spans)))
    done = count_by_pack(loaded.packs, renamed.spans) + partial_counts
    for index, pack in enumerate(loaded.packs):
        if is_twice or done[index] != pack.files:
            raise CommitStateUnknownError(
                f"{mark(join(context.job.packs, pack.ref.name))}: names {pack.files} files, but "
                f"{done[index]} were moved or proved",
                "nothing was cleaned up, so run the same command again",
            )


def are_all(spans: Sequence[tuple[int, int]], files: int) -> bool:
    """Whether `spans` are all of so many files, or of what else is counted, each once."""
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            return False
        end = stop
    return end == files
