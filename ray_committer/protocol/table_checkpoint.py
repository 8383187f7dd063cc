"""A checkpoint: the state of a table at a version, and its files in parts that checkpoints share.

A partition belongs to a part by the fingerprint of its name, so a commit changes only the parts of the
partitions that it writes to. A part is named by its digest: one that has not changed is not saved again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from ray_committer.protocol.file_list import SUFFIX, PackedFiles, cut, partition_of
from ray_committer.protocol.fingerprints import fingerprint, share_of
from ray_committer.protocol.table_entry import decode_content
from ray_committer.protocol.table_state import Files, TableState

FILES_PER_PART = 5_000
"""About how many files are in a part. The number of parts is a power of two, so it rarely changes."""


class Part(msgspec.Struct, frozen=True):
    """Some files of a table: the digest of their list, their number and size, and their partitions."""

    digest: str
    files: int
    bytes: int
    partitions: list[str]

    @property
    def name(self) -> str:
        return self.digest + SUFFIX


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """The state of the table `table_id`, with the parts that hold its files."""

    table_id: str
    state: TableState
    parts: list[Part]


def decode_checkpoint(data: bytes, path: str) -> Checkpoint:
    """Parse a checkpoint; `TableLogError` if it is damaged, `TableFormatError` if it is newer."""
    return decode_content(data, _DECODER, path)


def cut_parts(files: Files) -> Iterator[tuple[Part, bytes]]:
    """Cut the files of a table into parts, each with its content; equal files give equal parts."""
    shares: defaultdict[int, list[str]] = defaultdict(list)
    number = _number_of_shares(sum(map(len, files.values())))
    for partition in sorted(files):
        shares[share_of(fingerprint(partition), number)].append(partition)
    for share in sorted(shares):
        paths = sorted(path for partition in shares[share] for path in files[partition])
        of_share = [files[partition_of(path)][path] for path in paths]
        start = 0
        for packed in cut(of_share):
            end = start + packed.files
            yield _part(packed, paths[start:end]), packed.data
            start = end


def _part(packed: PackedFiles, paths: list[str]) -> Part:
    return Part(packed.digest, packed.files, packed.size, sorted(set(map(partition_of, paths))))


def _number_of_shares(files: int) -> int:
    return 1 << (max(0, files - 1) // FILES_PER_PART).bit_length()


_DECODER = msgspec.json.Decoder(Checkpoint)
