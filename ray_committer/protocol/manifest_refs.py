"""The manifests of a job as a commit holds them: encoded, since a hundred thousand are many objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from zlib import compress, decompress

import msgspec
from msgspec.structs import replace

from ray_committer.protocol.iostatistics import Names, PackedStatistics
from ray_committer.protocol.manifest import ManifestRef

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[tuple[int, ManifestRef], ...]).decode


class ManifestRefs(Collection[ManifestRef]):
    """Manifests in order. Each takes about 60 bytes; to iterate makes them, and keeps none. In an
    encoded one, a number stands for the names of its statistics, which many share."""

    __slots__ = ("_number", "_parts")

    def __init__(self, refs: Iterable[ManifestRef] = ()) -> None:
        names: dict[Names, int] = {}
        rows = []
        for ref in refs:
            number = names.setdefault(ref.statistics.names, len(names))
            rows.append((number, _with_names(ref, ())))
        self._number = len(rows)
        self._parts: tuple[tuple[bytes, tuple[Names, ...]], ...] = (
            (compress(_encode(rows), 1), tuple(names)),
        )

    @staticmethod
    def joined(parts: Iterable[ManifestRefs]) -> ManifestRefs:
        """All manifests of some parts, in order."""
        refs, given = ManifestRefs(), tuple(parts)
        refs._number = sum(map(len, given))
        refs._parts = tuple(chain.from_iterable(part._parts for part in given))
        return refs

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[ManifestRef]:
        for data, names in self._parts:
            yield from (_with_names(ref, names[number]) for number, ref in _decode(decompress(data)))

    def __contains__(self, ref: object) -> bool:
        return any(ref == each for each in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManifestRefs) and [*self] == [*other]


def _with_names(ref: ManifestRef, names: Names) -> ManifestRef:
    return replace(ref, statistics=PackedStatistics(names, ref.statistics.values))
