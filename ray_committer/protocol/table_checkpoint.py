"""A checkpoint: the state of a table at a version, and its files in parts that checkpoints share.

The files are in the order of their paths, cut into parts. So the files of a directory are in one part or
in neighbours, and a checkpoint names a few parts however many partitions there are. A part is named by
its digest: checkpoints share those that no commit between them has changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import msgspec

from ray_committer.protocol.file_list import MOST_FILES, SUFFIX, ListedFile, pack, partition_of
from ray_committer.protocol.table_entry import decode_content
from ray_committer.protocol.table_state import TableState

FEWEST_FILES = MOST_FILES // 4
"""A part that has changed and holds fewer files is joined with the next one."""

Changes = Mapping[str, ListedFile | None]
"""What became of the files at some paths: None if a file was removed."""

_path = attrgetter("path")


class Part(msgspec.Struct, frozen=True, gc=False):
    """Some files of a table, in the order of their paths: the digest of their list, its `length` in
    bytes as it is stored, the number of the files and their bytes.

    start: no path of this part is below it, and none of the part before is above it.
    """

    digest: str
    length: int
    files: int
    bytes: int
    start: str

    @property
    def name(self) -> str:
        return self.digest + SUFFIX


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """The state of the table `table_id`, with the parts that hold its files, in order.

    runs: the list of its run ids, which is beside the parts; None if it has none.
    is_end: whether its version is the last one of its file in the log, as far as that is known.
    """

    table_id: str
    state: TableState = TableState()
    parts: list[Part] = []
    runs: Part | None = None
    is_end: bool = False

    @property
    def lists(self) -> list[Part]:
        """All lists that it names."""
        return [*self.parts, *([self.runs] if self.runs is not None else [])]


@dataclass(frozen=True, slots=True)
class Below:
    """The paths below a directory of a table, or all, which follow each other in the order of paths."""

    directory: str = ""

    def __contains__(self, path: str) -> bool:
        return not self.directory or path.startswith(f"{self.directory}/")

    def of_files(self, files: list[ListedFile]) -> list[ListedFile]:
        """The files that are below the directory; `files` are in the order of their paths."""
        if not self.directory:
            return files
        first, end = (bisect_left(files, path, key=_path) for path in self._ends)
        return files[first:end]

    def of_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """The parts that can hold such files."""
        if not self.directory:
            return parts
        starts, (first, end) = [part.start for part in parts], self._ends
        begin = max(bisect_right(starts, first) - 1, 0)
        return parts[begin : max(bisect_left(starts, end), 1)]  # the first holds all below it

    @property
    def _ends(self) -> tuple[str, str]:
        return f"{self.directory}/", f"{self.directory}{chr(ord('/') + 1)}"


@dataclass(frozen=True, slots=True)
class Between:
    """The paths of a whole table from `first` on, up to `end` but without it; None is no end."""

    first: str = ""
    end: str | None = None
    directory: ClassVar[str] = ""

    def __contains__(self, path: str) -> bool:
        return path >= self.first and (self.end is None or path < self.end)


EVERYWHERE = Below()


def decode_checkpoint(data: bytes, path: str) -> Checkpoint:
    """Parse a checkpoint; `TableLogError` if it is damaged, `TableFormatError` if it is newer."""
    return decode_content(data, _DECODER, path)


def apply_changes(files: list[ListedFile], changes: Changes) -> list[ListedFile]:
    """The files after some changes, in the order of their paths; `files` are in that order."""
    if not changes:
        return files
    changed = [file for file in files if file.path not in changes]
    changed += (file for file in changes.values() if file is not None)
    changed.sort(key=_path)
    return changed


def merge_parts(
    parts: Sequence[Part], changes: Changes, read: Callable[[Part], list[ListedFile]]
) -> Iterator[tuple[Part, bytes | None]]:
    """The parts of a table after some changes; each new one with its content. Only parts with changes
    are read, and a part after one that got small, which are then joined."""
    paths, taken = sorted(changes), 0
    waiting, start = list[ListedFile](), ""
    for number, part in enumerate(parts or [_NOTHING]):
        is_last = number + 1 >= len(parts)
        # The last part takes all that is behind it, so a path never falls between two parts.
        end = len(paths) if is_last else bisect_left(paths, parts[number + 1].start)
        changed_here, taken = paths[taken:end], end
        if not changed_here and not waiting:
            if parts:
                yield part, None
            continue
        start = start if waiting else part.start
        files = read(part) if parts else []
        waiting += apply_changes(files, {path: changes[path] for path in changed_here})
        # A part that got small waits for its neighbour: else removals would leave ever more tiny parts.
        if len(waiting) >= FEWEST_FILES or is_last:
            yield from cut_parts(waiting, start)
            waiting = []


def cut_parts(files: Sequence[ListedFile], start: str = "") -> Iterator[tuple[Part, bytes]]:
    """Cut files, in the order of their paths, into parts of about the same size, each with its content.
    A partition is cut only if it has more files than fit into a part."""
    # As many parts as needed and then all about the same: a full part and a tiny rest would be joined
    # and cut again at the next change.
    count = -(-len(files) // MOST_FILES)
    begin = 0
    while begin < len(files):
        end = _end_of_part(files, begin, -(-len(files) // count))
        packed = pack(files[begin:end])
        yield Part(packed.digest, len(packed.data), packed.files, packed.size, start), packed.data
        if end < len(files):
            first = _first_of_partition(files[end])
            # At the partition's first path if the cut is between partitions: a file that is added to it
            # later then falls into this part.
            start = first if files[end - 1].path < first else files[end].path
        begin = end


def _end_of_part(files: Sequence[ListedFile], begin: int, most: int) -> int:
    end = begin + most
    if end >= len(files):
        return len(files)
    partition = bisect_left(files, _first_of_partition(files[end]), key=_path)
    return partition if partition > begin else end


def _first_of_partition(file: ListedFile) -> str:
    """A path that is not above any of the partition of `file`."""
    partition = partition_of(file.path)
    return f"{partition}/" if partition else ""


_NOTHING = Part("", 0, 0, 0, "")
_DECODER = msgspec.json.Decoder(Checkpoint)
