"""Find duplicate destinations across all tasks of a job, with eight bytes per file.

Hadoop's committer does not compare manifests: two tasks that write the same name lose a file or fail
half-way. One 64-bit hash per path finds every duplicate. The paths of a hash that occurs twice are then
compared exactly, so a collision costs a second look and never causes an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

WIDTH = 8
FEW = 100_000
"""Up to this number, fingerprints are compared without numpy, which need not be imported then."""


def fingerprint(path: str) -> bytes:
    """The 8-byte fingerprint of a normalised path."""
    # Local file names can hold bytes that are not UTF-8, which Python keeps as surrogates.
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=WIDTH).digest()


def fingerprints(paths: Iterable[str]) -> bytes:
    """The fingerprints of `paths`, concatenated in order."""
    return b"".join(map(fingerprint, paths))


def repeated(parts: Iterable[bytes]) -> frozenset[bytes]:
    """The fingerprints that occur more than once in all of `parts`; copies the data once."""
    known = list(parts)
    if _are_few(known):
        counts = Counter(chain.from_iterable(map(_each, known)))
        return frozenset(mark for mark, count in counts.items() if count > 1)
    array = _sorted(known)
    return _values(array[1:][array[1:] == array[:-1]])


def common(parts: Iterable[bytes], wanted: bytes) -> frozenset[bytes]:
    """The fingerprints of `wanted` that occur in `parts`."""
    if not wanted:
        return frozenset()
    known = list(parts)
    if _are_few([wanted, *known]):
        return frozenset(_each(wanted)).intersection(chain.from_iterable(map(_each, known)))
    import numpy

    sought = _sorted([wanted])
    matches = [part[numpy.isin(part, sought)] for part in map(_numbers, known)]
    return _values(numpy.concatenate([_numbers(b""), *matches]))


def share_of(mark: bytes, shares: int) -> int:
    """The number of the share, of `shares`, that a fingerprint belongs to: the same in every process."""
    # Not `hash`, which Python salts: workers on other nodes must find the same share.
    return int.from_bytes(mark, "little") % shares


def _are_few(parts: list[bytes]) -> bool:
    return sum(map(len, parts)) <= FEW * WIDTH


def _each(part: bytes) -> Iterator[bytes]:
    return (part[at : at + WIDTH] for at in range(0, len(part), WIDTH))


def _numbers(part: bytes) -> NDArray[numpy.uint64]:
    import numpy

    return numpy.frombuffer(part, dtype="<u8")


def _sorted(parts: Iterable[bytes]) -> NDArray[numpy.uint64]:
    import numpy

    array: NDArray[numpy.uint64] = numpy.concatenate([_numbers(b""), *map(_numbers, parts)])
    array.sort()
    return array


def _values(array: NDArray[numpy.uint64]) -> frozenset[bytes]:
    import numpy

    return frozenset(value.tobytes() for value in numpy.unique(array))
