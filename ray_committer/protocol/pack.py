"""A pack: the entries of some tasks of a job in one file, which the commit record names by its digest.

Manifests are what tasks save; from the record on only packs count, and nobody reads a manifest again. A
pack holds up to 10,000 entries in sections, so that a few of its entries cost little to read. The bytes
of sections can be joined: what two loads have left makes one pack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import compress
from struct import Struct
from typing import NamedTuple, TypeVar

import msgspec

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.paths import join
from ray_committer.protocol.prepared import prepare
from ray_committer.protocol.recovery import Expectation

MOST_ENTRIES = 10_000
SECTION_ENTRIES = 500
NAME_DIGITS = 16
_HEAD = Struct("<II")
"""The number of entries of a section, and the length of its text in bytes."""

T = TypeVar("T")
Entry = Rename | CompleteUpload
"""What puts one file in place, with decoded paths."""


class PackRef(msgspec.Struct, frozen=True, gc=False):
    """A pack as the record names it: its file `name`, `digest` and `size` in bytes, and its contents."""

    name: str
    digest: str
    size: int
    files: int
    bytes: int


class Pack(msgspec.Struct, frozen=True, gc=False):
    """A pack as work gets it: with its `data`, if it is in memory; without a name if it is not saved."""

    ref: PackRef
    data: bytes | None = None

    @property
    def files(self) -> int:
        return self.ref.files


class PackRange(msgspec.Struct, frozen=True, gc=False):
    """The entries `low` to `high` (exclusive) of the pack with this `index`."""

    index: int
    pack: Pack
    low: int
    high: int


class Sections(msgspec.Struct, frozen=True, gc=False):
    """The bytes of some sections, whose files have `size` bytes."""

    files: int = 0
    size: int = 0
    data: bytes = b""

    def pack(self) -> Pack:
        """These sections as a pack that is not saved."""
        return Pack(PackRef("", digest_of(self.data), len(self.data), self.files, self.size), self.data)


def joined(parts: Sequence[Sections]) -> Sections:
    """All entries of some sections, in order."""
    return Sections(
        sum(part.files for part in parts),
        sum(part.size for part in parts),
        b"".join(part.data for part in parts),
    )


NO_SECTIONS = Sections()


def digest_of(data: bytes) -> str:
    """The SHA-256 of a pack, in hex: its identity in the commit record."""
    return sha256(data).hexdigest()


def pack_name(nonce: str, digest: str) -> str:
    """The file name of a pack. The `nonce` is its writer's: under one name for two, the second one would
    empty a pack that a record already names."""
    return f"{nonce}-{digest[:NAME_DIGITS]}"


class Place(NamedTuple):
    """Where a section is in a pack: the number of its `first` entry, how many it has, and its bytes."""

    first: int
    files: int
    start: int
    end: int


class _Upload(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What only an upload has."""

    id: str
    parts: tuple[str, ...]
    stamp: str | None
    task: str | None
    job: str | None


class Section(msgspec.Struct, frozen=True, array_like=True):
    """Some entries by column. Sources are relative to the directory of the job's tasks. An empty column
    means that no entry has a value; `source_names` that all names stay. `alone` are directories of the
    output that the tasks name and to which no entry of these belongs."""

    alone: tuple[str, ...] = ()
    dests: list[str] = []
    dest_of: list[int] = []
    names: list[str] = []
    sizes: list[int] = []
    etags: list[str | None] = []
    sources: list[str] = []
    source_of: list[int] = []
    source_names: list[str] = []
    modified: list[int | None] = []
    versions: list[str | None] = []
    uploads: list[_Upload] = []

    @property
    def directories(self) -> Iterator[str]:
        """All directories of the output."""
        yield from self.alone
        yield from self.dests

    def entries(
        self, tasks: str, low: int = 0, high: int | None = None, without: AbstractSet[str] = frozenset()
    ) -> list[Entry]:
        """The entries `low` to `high`, but for those whose files lie in some directories; `tasks` is the
        directory of the job's tasks."""
        part, absent = slice(low, high), [None] * len(self.names)
        above = [directory.rstrip("/") + "/" for directory in self.dests]
        names, sizes = self.names[part], self.sizes[part]
        dests = [above[index] + name for index, name in zip(self.dest_of[part], names, strict=True)]
        etags = (self.etags or absent)[part]
        if self.uploads:
            return [
                CompleteUpload(dest, its.id, its.parts, etag, its.stamp, its.task, its.job, size)
                for dest, its, etag, size in zip(dests, self.uploads[part], etags, sizes, strict=True)
            ]
        places = [join(tasks, directory).rstrip("/") + "/" for directory in self.sources]
        olds = (self.source_names or self.names)[part]
        sources = [places[index] + name for index, name in zip(self.source_of[part], olds, strict=True)]
        expected = map(Expectation, sizes, etags, (self.modified or absent)[part])
        renames = map(Rename, sources, dests, expected, (self.versions or absent)[part])
        if without.isdisjoint(self.sources):
            return list(renames)
        stays = [directory not in without for directory in self.sources]
        return list(compress(renames, map(stays.__getitem__, self.source_of[part])))


prepare(Section)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Section)


def encode_section(entries: Sequence[Entry], tasks: str, directories: Iterable[str] = ()) -> Sections:
    """Encode up to `SECTION_ENTRIES` entries, and the `directories` that their tasks name."""
    section = _section(entries, tasks, directories)
    if not section.names and not section.alone:
        return NO_SECTIONS
    text = _ENCODER.encode(section)
    size = sum(section.sizes)
    return Sections(len(entries), size, _HEAD.pack(len(entries), len(text)) + text)


def decode_section(data: bytes, place: Place) -> Section:
    """Decode a section of a pack."""
    return _DECODER.decode(memoryview(data)[place.start : place.end])


def sections_of(data: bytes) -> Iterator[Place]:
    """The places of all sections of a pack."""
    first = at = 0
    while at < len(data):
        files, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield Place(first, files, at, at + length)
        first, at = first + files, at + length


def _section(entries: Sequence[Entry], tasks: str, directories: Iterable[str]) -> Section:
    dests, sources = dict[str, int](), dict[str, int]()
    dest_of, names, sizes, etags = list[int](), list[str](), list[int](), list[str | None]()
    source_of, source_names, modified = list[int](), list[str](), list[int | None]()
    versions, uploads = list[str | None](), list[_Upload]()
    prefix = join(tasks, "")
    for entry in entries:
        above, _, name = entry.dest.rpartition("/")
        dest_of.append(dests.setdefault(above, len(dests)))
        names.append(name)
        expected = entry.expected
        sizes.append(expected.size)
        etags.append(expected.etag)
        if isinstance(entry, CompleteUpload):
            uploads.append(_Upload(entry.id, entry.parts, entry.stamp, entry.task, entry.job))
            continue
        place, _, old = entry.source.removeprefix(prefix).rpartition("/")
        source_of.append(sources.setdefault(place, len(sources)))
        source_names.append(old)
        modified.append(expected.modified_milliseconds)
        versions.append(entry.version)
    return Section(
        tuple(directory for directory in directories if directory not in dests),
        [directory or "/" for directory in dests],
        dest_of,
        names,
        sizes,
        _given(etags),
        [*sources],
        source_of,
        [] if source_names == names else source_names,
        _given(modified),
        _given(versions),
        uploads,
    )


def _given(values: list[T | None]) -> list[T | None]:
    return values if values.count(None) < len(values) else []
