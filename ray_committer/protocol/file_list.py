"""Lists of a table's files: JSON lines, compressed, in files of their own that a digest identifies.

An entry of a table's log names its files. A few of them are in the entry itself. More are in file lists
of about 10,000 files, which the entry names by SHA-256, so that an entry stays small. A compressed list
takes about 24 bytes per file. No name of a list ends as the name of a data file does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from ray_committer.errors import TableLogError, mark

SUFFIX = ".z"
MOST_INLINE = 1_000
"""An entry holds up to this number of files itself."""
MOST_FILES = 10_000
"""The files of a list; the rests of several batches are joined to one that is less than twice that."""

_NAME_DIGITS = 8


_KEYS = {"path": "p", "size": "z", "modified_milliseconds": "m", "etag": "e"}


class ListedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename=_KEYS):
    """One file of a table: its path below the destination, its size in bytes, when it was written, in
    milliseconds since 1970, and its etag; both are None on a store that does not have them."""

    path: str
    size: int
    modified_milliseconds: int | None = None
    etag: str | None = None


class FileList(msgspec.Struct, frozen=True, gc=False):
    """A file list as an entry names it: the file's `name` and `digest`, and what the list holds."""

    name: str
    digest: str
    files: int
    bytes: int


class FileSet(msgspec.Struct, frozen=True):
    """The files that an entry adds or removes: either `inline`, or in `lists`; and how many."""

    files: int = 0
    bytes: int = 0
    inline: list[ListedFile] = []
    lists: list[FileList] = []


NO_FILES = FileSet()


class PackedFiles(msgspec.Struct, frozen=True, gc=False):
    """Some files as a list holds them: `data` are their lines, compressed; `size` is the sum of the
    files' sizes. The sum of two is the list of the files of both."""

    files: int = 0
    size: int = 0
    data: bytes = b""

    def __add__(self, other: PackedFiles) -> PackedFiles:
        return PackedFiles(self.files + other.files, self.size + other.size, self.data + other.data)

    @property
    def digest(self) -> str:
        return sha256(self.data).hexdigest()

    def listed(self, nonce: str) -> FileList:
        """These files as a list, under a name that no other one has."""
        digest = self.digest
        name = f"{digest[:_NAME_DIGITS]}-{nonce}{SUFFIX}"
        return FileList(name, digest, self.files, self.size)


NO_PACKED = PackedFiles()


def are_inline(files: int) -> bool:
    """Whether so many files are in the entry itself."""
    return files <= MOST_INLINE


def inline_set(files: Sequence[ListedFile]) -> FileSet:
    """A set whose files are in the entry itself."""
    return FileSet(len(files), sum(file.size for file in files), inline=list(files))


def listed_set(lists: Sequence[FileList]) -> FileSet:
    """A set whose files are in file lists."""
    return FileSet(
        sum(file_list.files for file_list in lists),
        sum(file_list.bytes for file_list in lists),
        lists=list(lists),
    )


def pack(files: Sequence[ListedFile]) -> PackedFiles:
    """Pack some files for one list; equal files give equal data."""
    lines = msgspec.json.Encoder().encode_lines(files)
    return PackedFiles(len(files), sum(file.size for file in files), zlib.compress(lines))


def cut(files: Sequence[ListedFile]) -> Iterator[PackedFiles]:
    """Cut files into lists, in order."""
    for start in range(0, len(files), MOST_FILES):
        yield pack(files[start : start + MOST_FILES])


def unpack(packed: PackedFiles) -> list[ListedFile]:
    """The files of a list that was not saved."""
    return _decode(packed.data)


def decode_file_list(data: bytes, digest: str, path: str) -> list[ListedFile]:
    """Parse a file list; `TableLogError` if it is not the one with this `digest`."""
    try:
        if sha256(data).hexdigest() != digest:
            raise ValueError("it has another digest")
        return _decode(data)
    except (zlib.error, msgspec.MsgspecError, ValueError) as e:
        raise TableLogError(
            f"{mark(path)}: is not the file list that the log of the table names: {e}"
        ) from e


def partition_of(path: str) -> str:
    """The directory of a file, relative to the destination; empty for a file in the destination."""
    return path.rpartition("/")[0]


def _decode(data: bytes) -> list[ListedFile]:
    files = list[ListedFile]()
    # A list that was joined from several batches is several zlib streams, one after the other.
    while data:
        part = zlib.decompressobj()
        files += _DECODER.decode_lines(part.decompress(data))
        # The digest was right or there is none, so a cut is a defect of the writer: still never a
        # shorter list.
        if not part.eof:
            raise ValueError("it is cut off")
        data = part.unused_data
    return files


_DECODER = msgspec.json.Decoder(ListedFile)
