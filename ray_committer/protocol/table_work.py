"""What a job does that is made from the log of its table, such as an undo of a version."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.table_entry import WriteMode


@dataclass(frozen=True, slots=True)
class TableWork:
    """The claim of a job that is made from the log of the table `table_id`, and the files that it
    replaces.

    base: the version of the table that the job has read.
    partitions: those that it changes, relative to the destination.
    replaced: exactly these old files are replaced. A job that overwrites names none: like any other
        overwrite, it replaces the files that a listing shows.
    run_id, undoes: as in the claim.
    """

    mode: WriteMode
    table_id: str
    base: int
    partitions: tuple[str, ...]
    replaced: tuple[ReplacedFile, ...] = ()
    run_id: str | None = None
    undoes: int | None = None

    @property
    def names_files(self) -> bool:
        """Whether the work names the old files, instead of a listing."""
        return self.mode is not WriteMode.OVERWRITE
