"""Check that a pack names only what its job can read and write.

Others can also write below ``_temporary``, so neither a record nor what it names is believed (R21).
"""

from __future__ import annotations

from collections.abc import Iterable

from ray_committer.errors import PathError, PreflightError, mark
from ray_committer.protocol.pack import Pack, Section
from ray_committer.protocol.paths import is_name, join
from ray_committer.stores.links import refuse_links
from ray_committer.work.entries import check_directory, check_packed
from ray_committer.work.load_manifest import above_sources
from ray_committer.work.worker import Worker


def check_pack(worker: Worker, pack: Pack, roots: tuple[str, ...], tasks: str) -> None:
    """`PreflightError` or `LinkedPathError` if a pack names what the job with these `roots` must not
    touch; errors as `PackReader.entries`. `tasks` is where the files of tasks are."""
    job, store = worker.job, worker.store
    try:
        for section in worker.packs.sections(pack):
            _require_plain(section)
            for directory in section.directories:
                check_directory(directory, job, roots, store)
        for entry in worker.packs.entries(pack):
            check_packed(entry, job, roots, store)
        refuse_links(store, above_sources(worker.packs.entries(pack, tasks=tasks), tasks))
    except (PathError, PreflightError) as e:
        path = mark(join(job.packs, pack.ref.name))
        raise type(e)(f"{path}: {e.parts[0]}", *e.args[1:]) from e


def _require_plain(section: Section) -> None:
    """Refuse what would lead elsewhere than it seems to, such as by ``..``."""
    paths = [*(path[1:] for path in section.directories), *filter(None, section.sources)]
    names: Iterable[str] = (name for path in paths if path for name in path.split("/"))
    for name in (*names, *section.names, *section.source_names):
        if not is_name(name):
            raise PreflightError(f"{name!r}: leads elsewhere than its path says")
