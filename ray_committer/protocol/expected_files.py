"""What must be at the destination, in 40 bytes a file: enough to compare it with listings.

Rows of a file's directory, path, size, etag and modification time, as numbers; names as fingerprints.
Packed rows of many manifests are cheap to hold, to move and to sort by directory, which entries are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy
from numpy.typing import NDArray

from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import Expectation

_ROW = numpy.dtype(
    [("directory", "<u8"), ("path", "<u8"), ("size", "<i8"), ("etag", "<u8"), ("modified", "<i8")]
)
_NONE = -(2**63)


def pack_expected(files: Iterable[tuple[str, Expectation]]) -> bytes:
    """Pack destinations and what must be there; `shares` and `by_directory` read it."""
    directories: dict[str, int] = {}
    rows = []
    for path, expected in files:
        directory = parent(path)
        if directory not in directories:
            directories[directory] = _number(directory)
        modified = expected.modified_milliseconds
        rows.append(
            (
                directories[directory],
                _number(path),
                expected.size,
                etag_number(expected.etag),
                _NONE if modified is None else modified,
            )
        )
    return numpy.array(rows, dtype=_ROW).tobytes()


def by_directory(
    parts: Sequence[bytes], number: int, shares: int
) -> dict[bytes, dict[bytes, Expectation]]:
    """Of packed rows, those whose directory falls into share `number` of `shares`.

    By fingerprint of the directory, then of the path; an etag is one of `hashed_etag`.
    """
    chosen = [_share(numpy.frombuffer(part, dtype=_ROW), number, shares) for part in parts]
    found: dict[bytes, dict[bytes, Expectation]] = {}
    for rows in chosen:
        for directory, path, expected in _expectations(rows):
            found.setdefault(directory, {})[path] = expected
    return found


def hashed_etag(etag: str | None) -> str | None:
    """An etag as `by_directory` gives it."""
    number = etag_number(etag)
    return str(number) if number else None


def etag_number(etag: str | None) -> int:
    """A number for an etag; 0 for none."""
    return (_number(etag) or 1) if etag else 0


def _share(rows: NDArray[numpy.void], number: int, shares: int) -> NDArray[numpy.void]:
    chosen: NDArray[numpy.void] = rows[rows["directory"] % numpy.uint64(shares) == number]
    return chosen


def _expectations(rows: NDArray[numpy.void]) -> Iterator[tuple[bytes, bytes, Expectation]]:
    for directory, path, size, etag, modified in rows.tolist():
        yield (
            directory.to_bytes(8, "little"),
            path.to_bytes(8, "little"),
            Expectation(size, str(etag) if etag else None, None if modified == _NONE else modified),
        )


def _number(text: str) -> int:
    return int.from_bytes(fingerprint(text), "little")
