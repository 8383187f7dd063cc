"""What one run of a commit did, as a value."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How a run ended."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RECORDED = "recorded"
    FAILED = "failed"


class CommitReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a commit: files, bytes and directories as counts, durations in seconds.

    `files` are those of the whole job, of which this run moved `moved` and proved `proved` (by kind
    of proof) to have been moved before. `resumed` tells that an earlier run had begun the commit.
    `throttled` of its `requests` to the store were refused because there were too many; `lowest_rate` is
    what the commit then went down to, in requests a second.
    """

    destination: str
    job_id: str
    job_attempt: int = 0
    outcome: Outcome
    executor: str = ""
    executor_reason: str = ""
    workers: int = 0
    resumed: bool = False
    manifests: int = 0
    files: int = 0
    bytes: int = 0
    directories: int = 0
    moved: int = 0
    proved: dict[str, int] = {}
    replaced: int = 0
    validated: int = 0
    requests: int = 0
    throttled: int = 0
    lowest_rate: float | None = None
    stage_seconds: dict[str, float] = {}
    notices: list[str] = []
    error: str | None = None

    @property
    def renames_per_second(self) -> float:
        """Files moved per second of the rename stage; 0 if none were."""
        seconds = self.stage_seconds.get("job_stage_rename_files", 0.0)
        return self.moved / seconds if seconds else 0.0
