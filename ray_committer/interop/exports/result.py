"""What one run of an export has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export.

    version: the version of the table that the Delta table has now.
    versions: how many versions of the table this run has exported; a first export is one.
    added, removed: how many files this run has added to the Delta table, and removed from it.
    """

    version: int
    versions: int = 0
    added: int = 0
    removed: int = 0
