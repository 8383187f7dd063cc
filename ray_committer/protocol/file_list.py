"""Lists of a table's files: JSON lines, compressed, in files of their own that a digest identifies.

An entry of a table's log names its files. A few of them are in the entry itself. More are in file lists
of at most 10,000 files, which the entry names by SHA-256, so that an entry stays small. A compressed
list takes about 24 bytes per file. No name of a list ends as the name of a data file does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from ray_committer.errors import TableLogError

SUFFIX = ".z"
MOST_INLINE = 1_000
"""An entry holds up to this number of files itself."""
MOST_FILES = 10_000
"""A file list holds up to this number of files."""

_NAME_DIGITS = 8


class ListedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a table: `p` path relative to the destination, `z` size in bytes, `m` modification
    time in milliseconds since 1970, `e` etag."""

    p: str
    z: int
    m: int | None = None
    e: str | None = None


class FileList(msgspec.Struct, frozen=True, gc=False):
    """A file list as an entry names it: its file `name`, the `digest` of its lines, and its contents."""

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


def inline_set(files: Sequence[ListedFile]) -> FileSet:
    """A set whose files are in the entry itself."""
    return FileSet(len(files), sum(file.z for file in files), inline=list(files))


def listed_set(lists: Sequence[FileList]) -> FileSet:
    """A set whose files are in file lists."""
    return FileSet(sum(one.files for one in lists), sum(one.bytes for one in lists), lists=list(lists))


def file_set(files: Sequence[ListedFile], batch: int = 0) -> tuple[FileSet, Mapping[str, bytes]]:
    """The set of some files, and the contents, by name, of the file lists that must be saved for it."""
    if len(files) <= MOST_INLINE:
        return inline_set(files), {}
    lists = list(cut(files, batch))
    return listed_set([one for one, _ in lists]), {one.name: data for one, data in lists}


def cut(files: Sequence[ListedFile], batch: int) -> Iterator[tuple[FileList, bytes]]:
    """Cut the files of one batch into file lists, in order; each with its content."""
    for start in range(0, len(files), MOST_FILES):
        part = files[start : start + MOST_FILES]
        lines = msgspec.json.Encoder().encode_lines(part)
        digest = sha256(lines).hexdigest()
        name = f"{batch}-{digest[:_NAME_DIGITS]}{SUFFIX}"
        yield FileList(name, digest, len(part), sum(file.z for file in part)), zlib.compress(lines)


def decode_file_list(data: bytes, digest: str, path: str) -> list[ListedFile]:
    """Parse a file list; `TableLogError` if its lines are not those of `digest`."""
    try:
        lines = zlib.decompress(data)
        if sha256(lines).hexdigest() != digest:
            raise ValueError("it has another digest")
        return msgspec.json.Decoder(ListedFile).decode_lines(lines)
    except (zlib.error, msgspec.MsgspecError, ValueError) as e:
        raise TableLogError(f"{path}: is not the file list that the log of the table names: {e}") from e


def partition_of(path: str) -> str:
    """The directory of a file, relative to the destination; empty for a file in the destination."""
    return path.rpartition("/")[0]
