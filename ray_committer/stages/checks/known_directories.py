"""Find out, by one request for each parent, which directories of the output are new.

A new directory is not listed, and nobody has set up a job in it or below it. One page of the parent
shows that, where a page is enough; it also shows whether jobs were set up in the parent, which can write
below it: so parents come first. What no page shows is asked for by its path later.
"""

from __future__ import annotations

import errno
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ray_committer.places.choose import needed
from ray_committer.protocol.paths import TEMPORARY, ancestors, is_inside, is_within, join, parent
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.mode_roots import ModeRoots
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class KnownDirectories:
    """What is known of the directories that a job writes to, and of those above them in the destination.
    `new` are those that are not there, and `shown` is what was seen at the paths of others. For each of
    the `parents` with a page, whether jobs were set up in it; `unasked` are those without."""

    new: frozenset[str] = frozenset()
    shown: Mapping[str, FileStatus] = field(default_factory=dict)
    parents: Mapping[str, bool] = field(default_factory=dict)
    unasked: frozenset[str] = frozenset()

    @property
    def there(self) -> Iterator[str]:
        """The paths at which a directory, and no link to one, was shown."""
        for path, status in self.shown.items():
            if status.is_directory and not status.is_link:
                yield path


_Question = tuple[str, frozenset[str], bool]
"""A parent, the paths in it that are asked for, and whether the parent was shown to be there."""
_Answer = tuple[str, list[FileStatus] | None, bool]
"""The parent, what is at those names, None if that is not known, and whether the parent is new."""


def know_directories(
    context: JobContext, directories: Sequence[str], roots: ModeRoots
) -> KnownDirectories:
    """Ask for the `directories`, and for those above them, but not where a listing shows them anyway: of
    each directory where that is cheap, and of what the job replaces, or where it wants no data."""
    replaced = set(roots.replaced)
    # The roots themselves are asked for, since new ones need no listing.
    known = look_at_parents(context, (p for p in directories if not is_within(parent(p), replaced)))
    if context.store.capabilities.listing_is_cheap:
        return known
    listed = replaced.union(roots.empty)
    return _look_at_paths(context, [p for p in directories if not is_within(p, listed)], known)


def look_at_parents(context: JobContext, directories: Iterable[str]) -> KnownDirectories:
    """Ask for the `directories` that are below the destination, level by level."""
    root, children = context.job.destination, _by_parent(context.job.destination, directories)
    new: set[str] = set()
    shown: dict[str, FileStatus] = {}
    parents: dict[str, bool] = {}
    # For one directory alone, its listing takes no longer than the question, and shows more.
    level = [root] if len(children[root]) > 1 else [path for path in children[root] if path in children]
    while level:
        questions = [(path, frozenset(children[path]), path in shown) for path in level]
        answers, level = context.run_batches(_ask, questions), []
        for path, statuses, is_new in itertools.chain.from_iterable(answers):
            if is_new:
                new.add(path)
                continue
            if statuses is not None:
                by_path = {status.path: status for status in statuses}
                parents[path] = by_path.pop(join(path, TEMPORARY), None) is not None
                shown |= by_path
                new |= children[path] - by_path.keys()
            level += (child for child in children[path] - new if child in children)
    known = itertools.chain.from_iterable(children.values())
    all_new = frozenset(path for path in known if is_within(path, new))
    return KnownDirectories(
        all_new, shown, parents, frozenset(children) - {root} - all_new - parents.keys()
    )


def _look_at_paths(
    context: JobContext, directories: Iterable[str], known: KnownDirectories
) -> KnownDirectories:
    """Ask by its path for each directory, and for those above it, that is not known yet."""
    inside = ((path, *ancestors(path, context.job.destination)) for path in directories)
    unknown = {path for paths in inside for path in paths} - known.new - known.shown.keys()
    asked = needed(context.store, sorted(unknown))
    shown = dict(pair for pairs in context.run_batches(_describe, asked) for pair in pairs)
    there = {path: status for path, status in shown.items() if status is not None}
    return replace(known, new=known.new.union(shown.keys() - there), shown={**known.shown, **there})


def _describe(worker: Worker, paths: tuple[str, ...]) -> list[tuple[str, FileStatus | None]]:
    return list(worker.map(lambda path: (path, worker.store.get_status(path)), paths))


def _by_parent(root: str, directories: Iterable[str]) -> defaultdict[str, set[str]]:
    """The `directories`, and those above them, that are below the root, by the directory above each."""
    children = defaultdict[str, set[str]](set)
    for directory in directories:
        path = directory
        while is_inside(path, root) and path not in children[parent(path)]:
            children[parent(path)].add(path)
            path = parent(path)
    return children


def _ask(worker: Worker, questions: tuple[_Question, ...]) -> list[_Answer]:
    return list(worker.map(lambda question: _ask_one(worker.store, *question), questions))


def _ask_one(store: StoreOperations, path: str, children: frozenset[str], is_shown: bool) -> _Answer:
    names = {TEMPORARY, *(child.rpartition("/")[2] for child in children)}
    try:
        return path, store.find_names(path, names), False
    except FileNotFoundError:
        # A link to nothing is in the way of a directory: what is behind it is asked for by its path.
        is_new = not is_shown and store.first_link((path, *ancestors(path, "/"))) is None
        return path, None, is_new
    except OSError as e:
        if not isinstance(e, NotADirectoryError) and e.errno != errno.ELOOP:
            raise
        return path, None, False
