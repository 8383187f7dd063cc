"""How many directories go whole, and why the others do not, as text."""

from __future__ import annotations

from collections.abc import Mapping

from ray_committer.protocol.whole import ByFile
from ray_committer.report.amounts import counted

_WHY = {
    ByFile.NOT_HERE: "on a store, or in a job set up by Hadoop, where none can",
    ByFile.NO_FILES: "without files",
    ByFile.THERE: "there before",
    ByFile.OWN_NAMES: "with files in directories of task attempts",
    ByFile.TWO_SOURCES: "with files under two spellings of its path",
    ByFile.ODD: "with too many leftovers of tasks, or what is no file",
    ByFile.NO_PROOF: "with files without a time and an etag",
    ByFile.RIGHTS: "with another owner, group or mode than a new directory",
    ByFile.REFUSED: "refused by the store",
}
"""Why files of directories are moved one by one, to follow the number of these."""


def whole_texts(whole: int, files: int, by_file: Mapping[str, int], *, verb: str = "went") -> list[str]:
    """How many directories go whole, with so many files; and for each reason how many others do not."""
    text = f"{whole:,} of {whole + sum(by_file.values()):,} directories {verb} whole"
    text += f", with {counted(files, 'file')}" if whole else ""
    return [text, *(f"{by_file[why]:,} {words}" for why, words in _WHY.items() if by_file.get(why))]
