"""Sum up the files of tasks by directory: as packs name them, and as listings show them.

Of each file there is one number of 16 bytes, from its name, its size and what identifies it. The number
of files in a directory and the sum of these numbers are equal if the files are: the driver compares
these and holds nothing per file. Where they differ, the files themselves are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import Flag
from hashlib import blake2b
from typing import NamedTuple

from ray_committer.protocol.hidden_names import is_passed_over
from ray_committer.protocol.pack import Entry, Pack, Section
from ray_committer.protocol.paths import join
from ray_committer.stores.base import FileStatus, Versions
from ray_committer.work.sources import list_directory
from ray_committer.work.worker import Worker


class Proof(Flag):
    """What identifies the files of a directory, beside their sizes."""

    NONE = 0
    SIZE = 1
    TIME = 2
    ETAG = 4


class Tally(NamedTuple):
    """How many files there are, the sum of their numbers, and what the packs say to identify them."""

    files: int = 0
    total: int = 0
    proof: Proof = Proof.NONE

    def plus(self, other: Tally) -> Tally:
        return Tally(self.files + other.files, self.total + other.total, self.proof | other.proof)


NOTHING = Tally()


def packed_tallies(worker: Worker, pack: Pack) -> dict[str, Tally]:
    """Work: the files that a pack names, by the directory of their sources below the job's tasks."""
    has_etags = worker.store.capabilities.versions is not Versions.NONE
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    for section in worker.packs.sections(pack):
        for directory, tally in zip(section.sources, _of_section(section, has_etags), strict=True):
            tallies[directory] = tallies[directory].plus(tally)
    return dict(tallies)


def listed_tallies(
    worker: Worker, wanted: tuple[tuple[str, Proof], ...], *, tasks: str
) -> list[tuple[str, Tally]]:
    """Work: the files in some directories below `tasks`, with what is to identify them."""

    def list_one(item: tuple[str, Proof]) -> tuple[str, Tally]:
        directory, proof = item
        # Past each cache: a task on this machine may have listed it before others wrote there.
        listed = list_directory(worker.store, join(tasks, directory), anew=True)
        return directory, tally_of(listed, proof)

    return list(worker.map(list_one, wanted))


def tally_of(listed: Iterable[FileStatus], proof: Proof) -> Tally:
    """Sum up the regular files of a listing, but for names that no task commits."""
    files = [status for status in listed if is_file(status)]
    total = sum(_number(status.name, status.size, _identity(status, proof)) for status in files)
    return Tally(len(files), total, proof)


def is_file(status: FileStatus) -> bool:
    """Whether a status is of a regular file whose name is one of output."""
    return not (status.is_directory or status.is_special or is_passed_over(status.name))


def entries_in(worker: Worker, pack: Pack, *, directories: frozenset[str], tasks: str) -> list[Entry]:
    """Work: the entries of a pack with sources in some directories below `tasks`."""
    selected: list[Entry] = []
    for section in worker.packs.sections(pack):
        if not directories.isdisjoint(section.sources):
            entries = section.entries(tasks)
            pairs = zip(entries, section.source_of, strict=True)
            selected += (entry for entry, index in pairs if section.sources[index] in directories)
    return selected


def _of_section(section: Section, has_etags: bool) -> Iterable[Tally]:
    """The files in each of the `sources` of a section."""
    files, totals = [0] * len(section.sources), [0] * len(section.sources)
    proofs = [0] * len(section.sources)  # as numbers: flags are slow
    size_only, by_time, by_etag = Proof.SIZE.value, Proof.TIME.value, Proof.ETAG.value
    names, absent = section.source_names or section.names, [None] * len(section.source_of)
    etags = (section.etags if has_etags else ()) or absent
    times = (() if has_etags else section.modified) or absent
    columns = zip(section.source_of, names, section.sizes, etags, times, strict=True)
    for place, name, size, etag, time in columns:
        files[place] += 1
        totals[place] += _number(name, size, etag or ("" if time is None else str(time)))
        proofs[place] |= by_etag if etag else size_only if time is None else by_time
    return map(Tally, files, totals, map(Proof, proofs))


def _identity(status: FileStatus, proof: Proof) -> str:
    if proof is Proof.ETAG:
        return status.etag or ""
    return str(status.modified_milliseconds) if proof is Proof.TIME else ""


def _number(name: str, size: int, identity: str) -> int:
    text = f"{name}\0{size}\0{identity}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=16).digest())
