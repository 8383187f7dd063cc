"""The task manifests of a job as a listing shows them, and what is compared of two listings."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import overload

import msgspec

from ray_committer.errors import MissingManifestsError, PreflightError, mark
from ray_committer.job_files.manifests import check_listed, list_manifest_files
from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt, is_inside
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import FileStatus

MANY_MANIFESTS = 10_000
"""From this number of manifests, a listing takes megabytes."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The summary of a listing of manifests: the `digest` differs if any of them differs.
    It `is_frozen` if none was in the directory where tasks save them."""

    digest: int = 0
    is_frozen: bool = True
    is_named: bool = False
    """Whether only names and sizes count, since the driver has named the manifests."""


class Listed(msgspec.Struct, frozen=True, gc=False):
    """A manifest in a listing: its file `name`, its `size` in bytes, and the `mark` of all that the
    listing shows of it; no mark if the driver has named it."""

    name: str
    size: int
    mark: int = 0


class ListedManifests(Sequence[Listed]):
    """Manifests in order, of which each takes about 50 bytes until it is asked for. `statuses` are
    emptied, so that memory holds each manifest once."""

    __slots__ = ("_ends", "_marks", "_names", "_sizes")

    def __init__(self, statuses: list[FileStatus]) -> None:
        self._names = bytearray()
        self._ends, self._sizes, self._marks = array("Q"), array("Q"), array("Q")
        statuses.sort(key=attrgetter("path"), reverse=True)
        while statuses:
            status = statuses.pop()
            self._names += status.name.encode(errors="surrogatepass")
            self._ends.append(len(self._names))
            self._sizes.append(status.size)
            self._marks.append(_mark_of(status))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Listed: ...

    @overload
    def __getitem__(self, index: slice) -> list[Listed]: ...

    def __getitem__(self, index: int | slice) -> Listed | list[Listed]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        begin = self._ends[index - 1] if index else 0
        name = self._names[begin : self._ends[index]].decode(errors="surrogatepass")
        return Listed(name, self._sizes[index], self._marks[index])


def list_manifests(
    context: JobContext, statuses: Iterable[FileStatus] | None
) -> tuple[Listing, Sequence[Listed]]:
    """The job's manifests, sorted by path, in the directory where they are now. `statuses` are all files
    of that directory, if it was listed already."""
    try:
        files = list_manifest_files(context.store, context.job) if statuses is None else statuses
    except FileNotFoundError as e:
        raise MissingManifestsError(
            f"{mark(context.job.manifests)}: is gone, perhaps because another job's clean-up deleted "
            f"all of {mark(context.job.temporary)}"
        ) from e
    counted = list(counted_manifests(files, counted_names(context)))
    del files
    return listing_of(context.job, counted), ListedManifests(counted)


def counted_names(context: JobContext) -> frozenset[str] | None:
    """The names of the manifests that count, if the driver has named the attempts that do and allows
    others to be there; else None, and all manifests count."""
    options = context.options
    if options.committed_tasks is None or not options.ignore_other_attempts:
        return None
    return frozenset(task.manifest for task in options.committed_tasks)


def counted_manifests(
    statuses: Iterable[FileStatus], names: frozenset[str] | None
) -> Iterator[FileStatus]:
    """Select the manifests that count, by `names`, from `statuses`; each must be a file with content."""
    for status in statuses:
        if status.name.endswith(MANIFEST_SUFFIX) and (names is None or status.name in names):
            check_listed(status)
            yield status


def listing_of(job: JobAttempt, counted: Iterable[FileStatus], *, is_named: bool = False) -> Listing:
    """Summarise listed manifests, which can be in any order."""
    total, is_frozen = 0, True
    for status in counted:
        total += _mark(status.name, status.size) if is_named else _mark_of(status)
        is_frozen = is_frozen and is_inside(status.path, job.frozen)
    return Listing(total, is_frozen, is_named)


def named_listing(manifests: Iterable[ManifestRef]) -> Listing:
    """What a listing of manifests must show that the driver has named, wherever they are."""
    total = sum(_mark(ref.name, ref.size) for ref in manifests)
    return Listing(total, is_frozen=False, is_named=True)


def _mark_of(status: FileStatus) -> int:
    times = (status.modified_milliseconds, status.etag, status.file_id, status.version)
    return _mark(status.name, status.size, *times)


def _mark(*facts: object) -> int:
    return int.from_bytes(fingerprint(repr(facts)))


def replaced_manifest(path: str) -> PreflightError:
    """The error for a manifest that is not the one of the attempt that the driver counts."""
    return PreflightError(
        f"{mark(path)}: is not what the successful task attempt saved (perhaps another attempt replaced "
        "it)",
        "run the job again",
    )
