"""Bind the entries of an open job to the versions of its files, where a rename can name one.

Such a rename refuses a file that was written again. A version that is not in the manifest is listed
before the record, for all tasks at once, with the checksum that proves the rename later. The packs are
written again with both: they are what freezes the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import Entry, Pack
from ray_committer.protocol.recovery import Expectation
from ray_committer.stages.checks.sources import sources_error
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, save_packs
from ray_committer.stores.base import FileStatus, file_pages
from ray_committer.work.batches import groups
from ray_committer.work.packs import PackReader, PackWriter
from ray_committer.work.sources import WrongSources, has_another_size, wrong_sources
from ray_committer.work.worker import Worker

FILES_AT_ONCE = 500_000
"""For so many files the versions are held at the same time; for more, the files are listed again."""


def bind_versions(
    context: JobContext, loaded: LoadedManifests, *, saves: bool = True
) -> LoadedManifests:
    """The manifests with entries that name a version, in packs that are saved as they fill, unless it
    `saves` none. With an error instead if a file is missing or has another size."""
    if not context.places.binds_renames or all(context.run(_is_bound, loaded.packs)):
        return loaded
    reader = PackReader(context.store, context.job)
    writer = PackWriter(context.store, context.job, saves=saves)
    wrong: list[WrongSources] = []
    parts = list(groups(((pack, pack.files) for pack in loaded.packs), FILES_AT_ONCE))
    for packs in parts:
        listed = _list(context, reader, packs if len(parts) > 1 else ())
        for section in chain.from_iterable(map(reader.sections, packs)):
            bound = [_bind(entry, listed) for entry in section.entries(context.job.tasks)]
            writer.add([entry for entry, _ in bound], section.alone)
            if missing := wrong_sources(bound):
                wrong.append(missing)
    if wrong:
        return replace(loaded, source_errors=(sources_error(context.job, wrong),))
    rest = writer.rest()
    made = (*writer.packs, *([rest.pack()] if rest.data else []))
    ready = replace(loaded, packs=made)
    # Workers of other processes read packs; this one saves the last one beside the declaration.
    return save_packs(context, ready) if saves and context.executor.starts_workers else ready


def _is_bound(worker: Worker, pack: Pack) -> bool:
    """Work: whether each entry of a pack is an upload, or names a version."""
    return all(
        section.uploads or (len(section.versions) == len(section.names) and all(section.versions))
        for section in worker.packs.sections(pack)
        if section.names
    )


def _list(context: JobContext, reader: PackReader, packs: Sequence[Pack]) -> dict[str, FileStatus]:
    """The files of all tasks, by path; only those that some `packs` name, if there are any."""
    entries = (entry for pack in packs for entry in reader.entries(pack))
    wanted = {entry.source for entry in entries if isinstance(entry, Rename)}
    listed: dict[str, FileStatus] = {}
    for page in file_pages(context.store, context.job.tasks):
        context.check_cancelled()
        named = (status for status in page if not packs or status.path in wanted)
        listed.update((status.path, status) for status in named)
    return listed


def _bind(entry: Entry, listed: Mapping[str, FileStatus]) -> tuple[Entry, str | None]:
    """The entry with the version of its file, and what is wrong with that file."""
    if isinstance(entry, CompleteUpload) or entry.version:
        return entry, None
    status = listed.get(entry.source)
    what = has_another_size(entry, status)
    if what is not None or status is None:
        return entry, what
    expected = Expectation(entry.expected.size, status.etag)
    return Rename(entry.source, entry.dest, expected, status.version), None
