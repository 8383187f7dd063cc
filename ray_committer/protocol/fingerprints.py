"""Duplicate destinations across all tasks of a job, found with eight bytes a file.

Hadoop's committer does not look across manifests: two tasks that write one name lose a file or fail
half-way. A 64-bit hash a path finds every duplicate; a hash that occurs twice is then looked up
exactly, so a collision costs a second look and never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy

WIDTH = 8


def fingerprint(path: str) -> bytes:
    """The 8-byte fingerprint of a normalised path."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=WIDTH).digest()


def fingerprints(paths: Iterable[str]) -> bytes:
    """The fingerprints of `paths`, concatenated in order."""
    return b"".join(map(fingerprint, paths))


def repeated(parts: Iterable[bytes]) -> frozenset[bytes]:
    """The fingerprints that occur more than once in all of `parts`."""
    array = numpy.frombuffer(b"".join(parts), dtype=numpy.uint64).copy()
    array.sort()
    twice = numpy.unique(array[1:][array[1:] == array[:-1]])
    return frozenset(value.tobytes() for value in twice)
