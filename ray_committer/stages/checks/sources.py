"""Look at the files of all tasks at once: before the record none can be missing, changed, or unnamed.

One listing per directory, or of all where a store lists files of many directories at once. The files of
each directory are summed up, and compared with what the packs name. Where the sums differ, a second
pass compares the files, some directories at a time: so the driver holds few files, however many the job
has. What the look finds also decides which directories go whole. The rename finds what changes later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from ray_committer.errors import (
    CommitStateUnknownError,
    IncompleteJobError,
    ManifestError,
    RayCommitterError,
    mark,
    some_of,
)
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import STAGED, STAGED_ROOT, JobAttempt, join, parent
from ray_committer.protocol.staging import is_shared, is_staged, is_staged_source, token_in, token_of
from ray_committer.protocol.whole import NOTHING, Rights, Sources, Tally, Verdict
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import FileStatus, file_pages
from ray_committer.work.batches import groups
from ray_committer.work.source_tallies import (
    Shared,
    compare_listings,
    entries_in,
    is_file,
    list_shared,
    packed_tallies,
    tally_of,
)
from ray_committer.work.sources import WrongSources, list_directory, what_is_wrong, wrong_sources
from ray_committer.work.worker import Worker

Differing = list[tuple[str, Tally | None]]
"""Directories that hold something else than is named, with what they hold; None if one is not there."""
FILES_AT_ONCE = 200_000
"""About so many files are listed, or compared, at the same time: each takes some hundred bytes."""
MOST_LEFTOVERS = 10_000
"""So many names of leftovers are held; directories with more of them are moved file by file."""
PAGE_FILES = 1000
"""The fewest files in a page of a store that lists the files of many directories at once."""


def sources_error(job: JobAttempt, wrong: Sequence[WrongSources]) -> ManifestError:
    """The error that names wrong sources of some tasks."""
    files = sum(each.files for each in wrong)
    named = some_of(sorted(name for each in wrong for name in each.named), files)
    return ManifestError(
        f"{mark(job.manifests)}: names {files} files that are missing or changed",
        f"abort the job and run it again: {named}",
    )


def _etags_error(job: JobAttempt, wrong: Sequence[WrongSources]) -> ManifestError:
    """The error if each file has its size and not its etag, since their directory was renamed."""
    files = sum(each.files for each in wrong)
    return ManifestError(
        f"{mark(job.tasks)}: all {files} files have their sizes and other etags than before, so this "
        "store changes etags when it renames a directory, and no job can be committed there",
        "run ray-committer doctor; if it does not find this, abort the job and run it again, because "
        "another program has written all its files again",
    )


@dataclass(frozen=True, slots=True)
class SourcesLook:
    """What a look has found: the `sources` as packs name them, and `verdicts` about shared ones that
    listings show otherwise. `errors` name the files of tasks that are missing or changed, and those that
    a task attempt that counts has written and no manifest names. `is_done` if the store was asked."""

    is_done: bool = False
    errors: tuple[RayCommitterError, ...] = ()
    sources: Sources = field(default_factory=Sources)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    rights: Rights = Rights()  # noqa: RUF009 - frozen


def look_at_sources(
    context: JobContext, loaded: LoadedManifests, *, may_be_missing: bool = False
) -> SourcesLook:
    """Look at the files of all tasks; no file is an error if some `may_be_missing`, since an earlier run
    can have moved them. Nothing is looked at where a store lists neither cheaply nor many directories at
    once, or where tasks upload their files."""
    lists_all = context.places.lists_files_by_pages
    if not (lists_all or context.store.capabilities.listing_is_cheap):
        return SourcesLook()
    packed = _packed(context, loaded.packs)
    by_pages = lists_all and len(packed) > 1 + loaded.files // PAGE_FILES
    list_each = partial(_compare_listings, context, packed.items(), len(packed))
    list_files = partial(_list_all, context, packed) if by_pages else list_each
    # If all files are in directories of the tasks' own, their writers choose no names.
    may_share = not packed or any(map(is_staged_source, packed))
    is_listed = may_share and (context.places.moves_whole or not by_pages)
    listed, shared = context.do_at_once(list_files, partial(_list_shared, context, is_listed))
    if not by_pages:
        unnamed = [(path, NOTHING) for path in shared.names() if path not in packed]
        listed += _compare_listings(context, unnamed, len(unnamed))
    elif may_be_missing and is_listed:  # pages show no directory that is empty, or gone
        there = {*shared.names()}
        listed = [(path, tally if tally != NOTHING or path in there else None) for path, tally in listed]
    suspects, verdicts = dict[str, int](), dict[str, Verdict]()
    for directory, tally in listed:
        named, listing = packed.get(directory), tally or NOTHING
        if tally is None and may_be_missing:
            verdicts[directory] = Verdict(is_missing=True)
        elif not named.shows(listing) or (named.files and is_shared(directory)):
            suspects[directory] = max(listing.files, named.files)
    errors, judged = _compare(context, loaded, suspects)
    errors = [] if may_be_missing else errors
    return SourcesLook(True, tuple(errors), packed, verdicts | judged, shared.rights())


def _packed(context: JobContext, packs: Sequence[Pack]) -> Sources:
    """The files that packs name, by the directory of their sources."""
    packed = Sources()
    counted = 0
    for tallies in context.run(packed_tallies, packs):
        counted += 1
        for directory, tally in tallies.items():
            packed.add(directory, tally)
    _require_all(context, counted, len(packs), "packs were read")
    return packed


def _list_all(context: JobContext, packed: Sources) -> Differing:
    """From one listing of all files, the directories that hold something else than `packed` says."""
    tasks, tallies = context.job.tasks, dict[str, Tally]()
    for page in file_pages(context.store, tasks):
        context.check_cancelled()
        by_directory: defaultdict[str, list[FileStatus]] = defaultdict(list)
        for status in page:
            by_directory[parent(status.path)[len(tasks) + 1 :]].append(status)
        for directory, statuses in by_directory.items():
            tally = tally_of(statuses, packed.get(directory).proof)
            above = "/".join(directory.split("/")[:2])
            if above != directory and is_shared(above):
                directory, tally = above, Tally(others=len(statuses))
            tallies[directory] = tallies.get(directory, NOTHING).plus(tally)
    pairs = (
        (directory, tallies.get(directory, NOTHING))
        for directory in {*packed, *filter(is_staged_source, tallies)}
    )
    return [(path, tally) for path, tally in pairs if packed.get(path).differs(tally)]


def _compare_listings(
    context: JobContext, wanted: Iterable[tuple[str, Tally]], number: int
) -> Differing:
    """By a listing of each, the directories that hold something else than is wanted of them."""
    differing, listed = list[tuple[str, Tally | None]](), 0
    compare = partial(compare_listings, tasks=context.job.tasks)
    for some in groups(((item, item[1].files) for item in wanted), FILES_AT_ONCE):
        for part in context.run_batches(compare, some):
            listed += part.directories
            differing += part.differing
    _require_all(context, listed, number, "directories were listed")
    return differing


def _list_shared(context: JobContext, is_listed: bool) -> Shared:
    """The directories that tasks share, if these are to be listed."""
    work = partial(list_shared, tasks=context.job.tasks)
    shared = Shared({}, [])
    for part in context.run_batches(work, [STAGED, STAGED_ROOT] if is_listed else []):
        for rights, keys in part.keys.items():
            shared.keys[rights] = shared.keys.get(rights, b"") + keys
        shared.roots.extend(part.roots)
    return shared


def _require_all(context: JobContext, number: int, wanted: int, what: str) -> None:
    if number < wanted:
        raise CommitStateUnknownError(
            f"{mark(context.job.tasks)}: {number} of {wanted} {what}",
            "nothing was changed: run the same command again",
        )


def _compare(
    context: JobContext, loaded: LoadedManifests, suspects: Mapping[str, int]
) -> tuple[list[RayCommitterError], dict[str, Verdict]]:
    """The second pass: compare the files in some directories, each with its number of files."""
    if not suspects:  # the tokens of 100,000 attempts take 13 MB
        return [], {}
    tokens = {token_of(ref.task_attempt_id or "") for ref in loaded.manifests} - {None}
    tasks, held = context.job.tasks, 0
    wrong: list[WrongSources] = []
    unnamed: list[str] = []
    verdicts: dict[str, Verdict] = {}
    for directories in groups(suspects.items(), FILES_AT_ONCE):
        missing, left, judged = _compare_some(context, loaded, directories)
        wrong += missing
        files = (status for status in left if is_file(status))
        unnamed += (status.path for status in files if is_of_attempt(status, tasks, tokens))
        for path, verdict in judged.items():
            fits = held + len(verdict.leftovers) <= MOST_LEFTOVERS
            verdicts[path] = verdict if fits else Verdict(is_odd=True)
            held += len(verdicts[path].leftovers)
    errors: list[RayCommitterError] = []
    if wrong:
        all_changed = context.job.is_frozen and sum(each.other_etags for each in wrong) == loaded.files
        errors.append((_etags_error if all_changed else sources_error)(context.job, wrong))
    return [*errors, *([_unnamed_error(unnamed)] if unnamed else [])], verdicts


def _compare_some(
    context: JobContext, loaded: LoadedManifests, directories: Sequence[str]
) -> tuple[list[WrongSources], Collection[FileStatus], dict[str, Verdict]]:
    """Compare the files in some directories: which are wrong, what no pack names, and the verdicts."""
    tasks = context.job.tasks
    listed = chain.from_iterable(context.run_batches(partial(_list_files, tasks=tasks), directories))
    statuses = {status.path: status for status in listed}
    odd = {
        parent(path)
        for path, status in statuses.items()
        if status.is_directory or status.is_special or status.is_link
    }
    wrong: list[WrongSources] = []
    partly: set[str] = set()
    named = partial(entries_in, directories=frozenset(directories), tasks=tasks)
    for entries in context.run(named, loaded.packs):
        pairs = [(entry, statuses.pop(entry.source, None)) for entry in entries]
        described = [(entry, what_is_wrong(entry, status)) for entry, status in pairs]
        if missing := wrong_sources(described):
            wrong.append(missing)
            partly |= {parent(entry.source) for entry, what in described if what is not None}
    leftovers: defaultdict[str, list[str]] = defaultdict(list)
    for path, status in statuses.items():
        leftovers[parent(path)].append(status.name)
    places = {path: join(tasks, path) for path in directories if is_shared(path)}
    verdicts = {
        path: Verdict((), is_odd=True)
        if place in odd
        else Verdict(tuple(leftovers[place]), is_partial=place in partly)
        for path, place in places.items()
    }
    return wrong, statuses.values(), verdicts


def is_of_attempt(status: FileStatus, tasks: str, tokens: Collection[str | None]) -> bool:
    """Whether a file lies in a directory that task attempts share, and has the token of one of them."""
    return is_staged(parent(status.path), tasks) and token_in(status.name) in tokens


def _list_files(worker: Worker, directories: tuple[str, ...], *, tasks: str) -> list[FileStatus]:
    """Work: what is in some directories below `tasks`."""
    listings = worker.map(
        lambda path: list_directory(worker.store, join(tasks, path), anew=True), directories
    )
    return [status for statuses in listings for status in statuses]


def _unnamed_error(paths: Sequence[str]) -> IncompleteJobError:
    named = some_of([*map(mark, sorted(paths))], len(paths))
    return IncompleteJobError(
        f"{named}: {len(paths)} files of task attempts that count are named by no manifest, so their "
        "rows would be lost",
        "nothing was changed: abort the job and run it again; only if these files are no output, remove "
        "them and run the same command",
    )
