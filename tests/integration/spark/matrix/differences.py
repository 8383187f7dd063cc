"""What a write by ours leaves otherwise than one by Spark's own committer, and why.

A case names its differences. All others are errors, and so is a difference that a case names and does
not show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Whose = Literal["theirs", "ours"]


@dataclass(frozen=True, slots=True)
class Difference:
    """`lines` are those that only one of two snapshots may have: of what, whose, and a pattern.

    A case that names it must show it, unless it is there only `sometimes`.
    """

    reason: str
    lines: tuple[tuple[str, Whose, str], ...]
    sometimes: bool = False

    def allows(self, what: str, whose: Whose, line: str) -> bool:
        return any(
            (what, whose) == (aspect, side) and re.fullmatch(pattern, line, re.DOTALL)
            for aspect, side, pattern in self.lines
        )


def _only(whose: Whose, pattern: str = ".*") -> tuple[tuple[str, Whose, str], ...]:
    """Files, and the checksums, directories and rows that go with them."""
    kinds = ("files", "checksums", "directories", "empty directories", "rows")
    return tuple((what, whose, pattern) for what in kinds)


OLD_DATA_STAYS = Difference(
    "an overwrite that fails keeps the old data, which Spark's own committer deletes first",
    (
        *_only("ours"),
        ("empty directories", "theirs", ".*"),
        ("schema", "ours", ".*"),
        ("seen", "theirs", ".*"),
    ),
)
SAME_DIRECTORIES = Difference(
    "an overwrite keeps the directory, and who may enter it; Spark's own committer makes a new one",
    (("directories", "theirs", ".* 0755"), ("directories", "ours", ".* (0700|0750|2770)")),
)
MARKED = Difference(
    "with Spark's own committer, a dynamic overwrite writes its marker to a directory that it deletes",
    (("files", "ours", ".*/_SUCCESS 0644"), ("files", "theirs", ".*/_SUCCESS 0640")),
)
OTHERS_JOBS = Difference(
    "other jobs may be at work in `_temporary` and in Spark's staging directories",
    _only("ours", r".*/(_temporary|\.spark-staging-1)(/.*| .*)"),
)
READS_ITSELF = Difference(
    "the old files are there until the new ones are; Spark's own committer deletes what it is to read",
    (
        *OLD_DATA_STAYS.lines,
        ("errors", "theirs", "0: .*FileNotFoundException"),
        ("errors", "ours", "0: done"),
    ),
)
NOTHING_DONE = Difference(
    "a commit that cannot be finished is refused before anything is moved",
    (*_only("theirs"), ("empty directories", "ours", ".*"), *_only("ours", ".*/_temporary.*")),
)
OWN_ERROR = Difference(
    "the commit's error comes in the place of the file system's",
    (("errors", "theirs", ".*"), ("errors", "ours", ".*java.io.IOException")),
)
NO_LINKS = Difference(
    "what is behind a link to a directory may belong to others",
    (
        *_only("theirs"),
        *_only("ours"),
        ("errors", "theirs", "0: done"),
        ("errors", "ours", ".*IOException"),
    ),
)
NO_FILE_DELETED = Difference(
    "no write deletes it: the file may be somebody's data",
    (
        *_only("theirs"),
        *_only("ours"),
        ("errors", "theirs", "0: done"),
        ("errors", "ours", ".*IOException"),
    ),
)
NO_CHECKSUMS = Difference(
    "a checksum would be a second rename of each file that is moved alone, and only Hadoop knows it",
    (("checksums", "theirs", ".*"),),
)
NO_SUMMARIES = Difference(
    "Parquet's committer reads the footers of all files in the driver",
    (("files", "theirs", ".*/(_metadata|_common_metadata) 0644"),),
)
STOPPING_TASKS = Difference(
    "tasks that had not stopped when the job was removed make their directories again",
    tuple(("empty directories", whose, ".*/_temporary.*") for whose in ("theirs", "ours")),
    sometimes=True,
)


def judge(
    differs: tuple[Difference, ...], theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> Iterator[str]:
    """Say what is different between two snapshots and should not be."""
    known = (NO_CHECKSUMS, *differs)
    seen: set[Difference] = set()
    for what, whose, line in _lines(theirs, ours):
        allowed = [one for one in known if one.allows(what, whose, line)]
        seen.update(allowed)
        if not allowed:
            yield f"{what}, only {whose}: {line}"
    for one in differs:
        if not one.sometimes and one not in seen:
            yield f"is not different: {one.reason}"


def _lines(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[tuple[str, Whose, str]]:
    for what in theirs:
        one, other = Counter(theirs[what]), Counter(ours[what])
        for line in (one - other).elements():
            yield what, "theirs", line
        for line in (other - one).elements():
            yield what, "ours", line
