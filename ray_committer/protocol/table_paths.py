"""The places of a table's log, below ``$dest/_ray_committer``.

No name there ends as the name of a data file does: a reader of ``**/*.parquet`` would read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.protocol.paths import check_name, join

DIRECTORY = "_ray_committer"
ENTRY_SUFFIX = ".entry"
KEPT_SUFFIX = ".kept"
DELTA_LOG = "_delta_log"
"""The directory with the log of an exported Delta table; readers of directories pass over it."""
BLOCK = 1_000
"""The number of versions in one directory of the log; the first one has one less."""

_DRAFT_SUFFIX = ".draft"
_PLACE_DIGITS = 3
_BLOCK_DIGITS = 12


@dataclass(frozen=True, slots=True, order=True)
class DraftName:
    """The name of an entry on its way into the log.

    seen: its owner has judged it by all entries up to this version.
    key: distinguishes what it says from what other entries say, see `table_pack.key_of`.
    nonce: random, so that no other draft has the name.
    """

    seen: int
    key: str
    nonce: str

    def __str__(self) -> str:
        return f"{self.seen:0{_BLOCK_DIGITS + _PLACE_DIGITS}d}-{self.key}-{self.nonce}{_DRAFT_SUFFIX}"


@dataclass(frozen=True, slots=True)
class TablePlaces:
    """The places of the log of the table at `destination`."""

    destination: str

    @property
    def directory(self) -> str:
        return join(self.destination, DIRECTORY)

    @property
    def definition(self) -> str:
        """The file that makes the destination a table with a log."""
        return join(self.directory, f"table{ENTRY_SUFFIX}")

    @property
    def log(self) -> str:
        """The directory of the directories of entries."""
        return join(self.directory, "log")

    def block(self, number: int) -> str:
        """The directory of the entries whose version divided by `BLOCK` is `number`."""
        return join(self.log, f"{number:0{_BLOCK_DIGITS}d}")

    def entry(self, version: int) -> str:
        """The file whose first entry has this version."""
        block, place = divmod(version, BLOCK)
        return join(self.block(block), f"{place:0{_PLACE_DIGITS}d}{ENTRY_SUFFIX}")

    @property
    def file_lists(self) -> str:
        """The directory of the file lists of all jobs."""
        return join(self.directory, "files")

    def file_list(self, job_id: str, job_attempt: int, name: str) -> str:
        """A file list of a job attempt."""
        check_name(job_id, "job id")
        check_name(name, "file list")
        return join(self.file_lists, f"{job_id}-{job_attempt}-{name}")

    @property
    def checkpoints(self) -> str:
        return join(self.directory, "checkpoint")

    def checkpoint(self, version: int) -> str:
        """The state of the table at a version."""
        return join(self.checkpoints, f"{version}{ENTRY_SUFFIX}")

    @property
    def parts(self) -> str:
        """The directory of the files that checkpoints share."""
        return join(self.checkpoints, "parts")

    def kept_directory(self, claim: int) -> str:
        """The directory of the old files that the job of a claim has kept."""
        return join(self.directory, "removed", str(claim))

    def kept(self, claim: int, path: str) -> str:
        """The place of an old file that the job of a claim has kept; `path` is as the log names it."""
        return join(self.kept_directory(claim), f"{path}{KEPT_SUFFIX}")

    @property
    def delta_cursor(self) -> str:
        """The cursor of the export to Delta: how far it has come."""
        return join(self.directory, f"delta{ENTRY_SUFFIX}")

    def delta_version(self, version: int) -> str:
        """The file of a version in the log of the table's Delta export."""
        return join(self.destination, DELTA_LOG, f"{version:020d}.json")

    @property
    def temporaries(self) -> str:
        return join(self.directory, "tmp")

    def aside(self, claim: int) -> str:
        """The directory of the old files that a claim removes, before they are deleted."""
        return join(self.temporaries, f"aside-{claim}")

    def temporary(self, nonce: str) -> str:
        """The place where a file of the log is written before it gets its name."""
        return join(self.temporaries, nonce)

    def draft(self, draft: DraftName) -> str:
        """The place of an entry that another process is permitted to put into the log."""
        return join(self.temporaries, str(draft))

    @property
    def complete(self) -> str:
        """The file that shows that the table was made to its end: the log names the files that were
        there, and no job is left that does not know the log."""
        return join(self.directory, f"complete{ENTRY_SUFFIX}")


def is_in_log(path: str) -> bool:
    """Whether `path` is the directory of a table's log, or below one."""
    return f"/{DIRECTORY}/" in f"{path}/"


def number_of(name: str) -> int | None:
    """The number in the name of an entry, a checkpoint or a block; None for any other name."""
    digits = name.removesuffix(ENTRY_SUFFIX)
    return int(digits) if _is_number(digits) else None


def draft_of(name: str) -> DraftName | None:
    """The draft that a name is of; None for any other name."""
    parts = name.removesuffix(_DRAFT_SUFFIX).split("-")
    if not name.endswith(_DRAFT_SUFFIX) or len(parts) != 3 or not _is_number(parts[0]):
        return None
    return DraftName(int(parts[0]), parts[1], parts[2])


def _is_number(text: str) -> bool:
    # `int` takes the digits of all scripts, and then two names would be one number.
    return text.isascii() and text.isdigit()
