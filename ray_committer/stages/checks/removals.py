"""Check, before the record, that each old file can be taken out of its directory.

After the job is sealed, an old file that cannot go would stay visible beside the new files. It takes one
request per directory of old files where the store is asked over a network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from ray_committer.errors import SHOWN, PreflightError, mark, some_of
from ray_committer.protocol.paths import parent
from ray_committer.stages.context import JobContext
from ray_committer.work.worker import Worker

_Group = tuple[str, tuple[str, ...]]
_Found = tuple[int, list[str]]
"""The number of files that cannot go, and some texts that say which, and why."""


def check_removals(context: JobContext, paths: Iterable[str]) -> list[PreflightError]:
    """The error, if any, that names the old files at `paths` that could not be removed."""
    by_directory: dict[str, list[str]] = defaultdict(list)
    for path in context.old_files.checked(paths):
        by_directory[parent(path)].append(path)
    groups = [(directory, tuple(files)) for directory, files in by_directory.items()]
    denied = [part for group in context.run_batches(_look, groups) for part in group]
    files = sum(count for count, _ in denied)
    if not files:
        return []
    named = sorted(text for _, texts in denied for text in texts)
    error = PreflightError(
        f"{some_of(named)}: in all, {files} old files could not be removed, so their rows would stay "
        f"beside those of the job",
        "nothing was changed: make it possible to remove them, or move them away, or commit as a user "
        "who can remove them; then run the same command",
    )
    return [error]


def _look(worker: Worker, groups: tuple[_Group, ...]) -> list[_Found]:
    """Work: which old files of some directories cannot go."""
    return [denied for denied in worker.map(partial(_look_at, worker), groups) if denied[0]]


def _look_at(worker: Worker, group: _Group) -> _Found:
    directory, files = group
    reasons = worker.store.what_stays(directory, files, worker.job.directory)
    texts = [f"{mark(path)}: {why}" for path, why in sorted(reasons.items())[:SHOWN]]
    return len(files) if directory in reasons else len(reasons), texts
