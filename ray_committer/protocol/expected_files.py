"""The expected files at the destination, in 40 bytes per file: enough to compare them with listings.

A row holds a file's directory, path, size, etag and modification time as numbers; names are
fingerprints. Packed rows of many manifests are cheap to hold, to move and to sort by directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from ray_committer.protocol.fingerprints import FEW, fingerprint
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import Expectation

_ROW = Struct("<QQqQq")
"""Directory, path, size, etag and modification time."""
_NONE = -(2**63)


def pack_expected(files: Iterable[tuple[str, Expectation]]) -> bytes:
    """Pack destinations and the expected files there; `by_directory` reads the result."""
    directories: dict[str, int] = {}
    rows = []
    for path, expected in files:
        directory = parent(path)
        if directory not in directories:
            directories[directory] = _number(directory)
        modified = expected.modified_milliseconds
        facts = expected.size, etag_number(expected.etag), _NONE if modified is None else modified
        rows.append(_ROW.pack(directories[directory], _number(path), *facts))
    return b"".join(rows)


def by_directory(
    parts: Sequence[bytes], number: int, shares: int
) -> dict[bytes, dict[bytes, Expectation]]:
    """Return the packed rows whose directory falls into share `number` of `shares`, by the fingerprints
    of the directory and of the path. Etags are as `hashed_etag` returns them."""
    expected_by_directory: dict[bytes, dict[bytes, Expectation]] = {}
    for part in parts:
        for directory, path, size, etag, modified in _ROW.iter_unpack(_share(part, number, shares)):
            expected = expected_by_directory.setdefault(directory.to_bytes(8, "little"), {})
            expected[path.to_bytes(8, "little")] = Expectation(
                size, str(etag) if etag else None, None if modified == _NONE else modified
            )
    return expected_by_directory


def hashed_etag(etag: str | None) -> str | None:
    """An etag in the form that `by_directory` returns."""
    number = etag_number(etag)
    return str(number) if number else None


def etag_number(etag: str | None) -> int:
    """A number for an etag; 0 if there is none."""
    # 0 means no etag, so an etag whose hash is 0 becomes 1.
    return (_number(etag) or 1) if etag else 0


def _share(part: bytes, number: int, shares: int) -> bytes:
    """The rows of one share; numpy selects them if there are many, because it is much faster then."""
    if shares == 1:
        return part
    if len(part) <= FEW * _ROW.size:
        rows = (part[at : at + _ROW.size] for at in range(0, len(part), _ROW.size))
        return b"".join(row for row in rows if int.from_bytes(row[:8], "little") % shares == number)
    import numpy

    # As unsigned, like `share_of`: a signed directory number would fall into another share here than
    # there.
    columns = numpy.frombuffer(part, dtype="<u8").reshape(-1, _ROW.size // 8)
    return bytes(columns[columns[:, 0] % numpy.uint64(shares) == number].tobytes())


def _number(text: str) -> int:
    return int.from_bytes(fingerprint(text), "little")
