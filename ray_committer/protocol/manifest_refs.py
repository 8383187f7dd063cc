"""The manifests of a job as a commit holds them: encoded, since a hundred thousand are many objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

import msgspec

from ray_committer.protocol.iostatistics import Names, PackedStatistics
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.passed_over import PassedOver

_NO_STATISTICS, _NOTHING = PackedStatistics(), PassedOver()
_encode = msgspec.msgpack.Encoder().encode


class _Row(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """A `ManifestRef`; `names` is the number of the names of its statistics."""

    name: str
    size: int
    digest: str
    files: int
    task_attempt_id: str | None
    task_attempt_directory: str | None
    mark: int
    passed_over: PassedOver = _NOTHING
    names: int | None = None
    values: bytes = b""


_decode = msgspec.msgpack.Decoder(tuple[_Row, ...]).decode


class ManifestRefs(Collection[ManifestRef]):
    """Manifests in order. Each takes about 150 bytes; to iterate makes them, and keeps none."""

    __slots__ = ("_number", "_parts")

    def __init__(self, refs: Iterable[ManifestRef] = ()) -> None:
        names: dict[int, tuple[int, Names]] = {}
        rows = [_row(ref, names) for ref in refs]
        shared = tuple(each for _, each in names.values())
        self._number = len(rows)
        self._parts: tuple[tuple[bytes, tuple[Names, ...]], ...] = (
            ((_encode(rows), shared),) if rows else ()
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
            for row in _decode(data):
                yield _ref(row, names)

    def __contains__(self, ref: object) -> bool:
        return any(ref == each for each in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManifestRefs) and [*self] == [*other]


def _row(ref: ManifestRef, names: dict[int, tuple[int, Names]]) -> _Row:
    """`names` are the names of statistics so far, by the object that many share."""
    packed, number = ref.statistics, None
    if packed != _NO_STATISTICS:
        number = names.setdefault(id(packed.names), (len(names), packed.names))[0]
    return _Row(
        ref.name,
        ref.size,
        ref.digest,
        ref.files,
        ref.task_attempt_id,
        ref.task_attempt_directory,
        ref.mark,
        ref.passed_over,
        number,
        b"" if number is None else packed.values,
    )


def _ref(row: _Row, names: tuple[Names, ...]) -> ManifestRef:
    return ManifestRef(
        row.name,
        row.size,
        row.digest,
        row.files,
        row.task_attempt_id,
        row.task_attempt_directory,
        row.mark,
        PackedStatistics(names[row.names], row.values) if row.names is not None else _NO_STATISTICS,
        row.passed_over,
    )
