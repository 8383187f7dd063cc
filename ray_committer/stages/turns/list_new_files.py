"""List the new files of a job for the log of its table.

They are listed from the packs that the record will name, with what proves each. Workers save lists of
10,000 files. The driver joins the rests: it holds one, of less than a megabyte, and a name per list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ray_committer.errors import PreflightError, mark
from ray_committer.protocol import file_list
from ray_committer.protocol.file_list import (
    NO_PACKED,
    FileList,
    FileSet,
    ListedFile,
    PackedFiles,
    are_inline,
    cut,
    inline_set,
    listed_set,
    pack,
    unpack,
)
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.pack import Entry, Pack
from ray_committer.protocol.paths import ancestors, is_inside, parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.tables.file_sets import save_file_lists
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class NewFiles:
    """The files of one pack: the lists that are saved, and the rest."""

    lists: tuple[FileList, ...] = ()
    rest: PackedFiles = NO_PACKED


def list_new_files(context: JobContext, packs: Sequence[Pack]) -> FileSet:
    """Save lists of the files in all `packs` of a job in the log of its table; errors as `relative`."""
    joined = JoinedFiles(context)
    for files in context.run(_list_pack, packs):
        joined.add(files)
    return joined.file_set()


@dataclass(slots=True)
class JoinedFiles:
    """The files of all packs so far; the driver saves the rests of several as one list."""

    context: JobContext
    lists: list[FileList] = field(default_factory=list)
    rest: PackedFiles = NO_PACKED

    def add(self, files: NewFiles) -> None:
        """Add the files of a pack."""
        self.lists += files.lists
        self.rest += files.rest
        if self.rest.files >= file_list.MOST_FILES:
            self._save_rest()

    def file_set(self) -> FileSet:
        """All files, after the last pack was added."""
        if not self.lists and are_inline(self.rest.files):
            return inline_set(unpack(self.rest))
        if self.rest.files:
            self._save_rest()
        return listed_set(self.lists)

    def _save_rest(self) -> None:
        self.lists += _save(self.context, [self.rest])
        self.rest = NO_PACKED


def _list_pack(worker: Worker, entries: Pack) -> NewFiles:
    """Work: list the files of one pack; save each list that is full."""
    destination = worker.job.destination
    files = [listed_file(destination, entry) for entry in worker.packs.entries(entries)]
    full = len(files) - len(files) % file_list.MOST_FILES
    return NewFiles(tuple(_save(worker, cut(files[:full]))), pack(files[full:]))


def _save(where: JobContext | Worker, packed: Iterable[PackedFiles]) -> list[FileList]:
    job = where.job
    table = TablePlaces(job.destination)
    return save_file_lists(where.store, table, packed, job_id=job.job_id, job_attempt=job.number)


def relative(destination: str, path: str) -> str:
    """The path in the log of a table; empty for the destination, `PreflightError` outside it."""
    if path == destination:
        return ""
    if not is_inside(path, destination):
        raise PreflightError(
            f"{mark(path)}: is outside {mark(destination)}, which is a table with a log, so the log "
            "cannot name it",
            "nothing was changed: abort the job, and write only below the table",
        )
    return path[len(destination.rstrip("/")) + 1 :]


def listed_file(destination: str, entry: Entry) -> ListedFile:
    """The file of an entry, as the log of a table names it; errors as `relative`."""
    expected = entry.expected
    path = relative(destination, entry.dest)
    return ListedFile(path, expected.size, expected.modified_milliseconds, expected.etag)


def touched_directories(context: JobContext, record: CommitRecord) -> list[str]:
    """The directories below the destination that the job of `record` writes to, or removes files from,
    relative to it and in order; not those that only contain others. The job must be loaded: errors as
    the coordinator's. The destination is not among them, since its files are in no partition."""
    destination = context.job.destination
    old = {parent(file.path) for file in record.old_files}
    written = {*context.executor.directories.share(0, 1)}
    written -= {above for path in written for above in ancestors(path, destination)}  # of the tasks
    inside = (path for path in {*old, *written, *record.emptied} if is_inside(path, destination))
    names = (relative(destination, path) for path in inside)
    return sorted(name for name in names if not is_hidden(name))
