"""Check, before the record, that this user can remove the old files, and link the new ones.

After the job is sealed, an old file that cannot go would stay visible beside the new files. It takes one
request per directory of old files where the store is asked over a network. Where no rename spares what
is there, as on NFS, a file is linked, which ``fs.protected_hardlinks`` denies for files of other users.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from ray_committer.errors import SHOWN, PreflightError, mark, some_of
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import parent
from ray_committer.stages.context import JobContext
from ray_committer.work.worker import Worker

_Group = tuple[str, tuple[str, ...]]
_Found = tuple[int, list[str]]
"""The number of files that are denied, and some texts that say which, and why."""


def check_removals(context: JobContext, paths: Iterable[str]) -> None:
    """`PreflightError` that names the old files at `paths` that could not be removed."""
    by_directory: dict[str, list[str]] = defaultdict(list)
    for path in context.old_files.checked(paths):
        by_directory[parent(path)].append(path)
    groups = [(directory, tuple(files)) for directory, files in by_directory.items()]
    denied = [part for group in context.run_batches(_look, groups) for part in group]
    if files := sum(count for count, _ in denied):
        named = sorted(text for _, texts in denied for text in texts)
        raise PreflightError(
            f"{some_of(named)}: in all, {files} old files could not be removed, so their rows would "
            "stay beside those of the job",
            "nothing was changed: make it possible to remove them, or move them away, or commit as a "
            "user who can remove them; then run the same command",
        )


def _look(worker: Worker, groups: tuple[_Group, ...]) -> list[_Found]:
    return [denied for denied in worker.map(partial(_look_at, worker), groups) if denied[0]]


def _look_at(worker: Worker, group: _Group) -> _Found:
    directory, files = group
    reasons = worker.store.what_stays(directory, files, worker.job.directory)
    texts = [f"{mark(path)}: {why}" for path, why in sorted(reasons.items())[:SHOWN]]
    return len(files) if directory in reasons else len(reasons), texts


def check_links(context: JobContext, packs: Sequence[Pack]) -> None:
    """`PreflightError` that names the files that this user has no permission to link.
    `StoreRefusedError` if nothing can be linked. Where renames need no link, the check costs nothing."""
    if not context.store.links_files(context.job.directory):
        return
    denied = sorted(context.executor.run(_denied, packs), key=lambda part: part[1])
    if files := sum(count for count, _ in denied):
        named = some_of([mark(path) for _, paths in denied for path in paths], files)
        raise PreflightError(
            f"{named}: {files} files of other users cannot be linked by this user "
            f"(fs.protected_hardlinks), and this file system needs links to rename without replacing",
            "nothing was changed: commit as the user who wrote the files, or give this user write "
            "permission for them",
        )


def _denied(worker: Worker, pack: Pack) -> _Found:
    denied = worker.store.denied_links([entry.source for entry in worker.packs.entries(pack)])
    return len(denied), sorted(denied)[:SHOWN]
