"""What the operations on jobs of a table return."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ray_committer.records.ledger import State, WriteMode


class RecordOutcome(StrEnum):
    """How a commit ended. IGNORED: the mode is ``ignore``, and rows have come since the job began."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    IGNORED = "ignored"


class RecordReport(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: `rows` of so many task `attempts` are in the table. `destination` is the URL of the
    database without its password. A notice is about what failed after the commit, and is repeated by the
    command that it names."""

    destination: str
    table: str
    job_id: str
    write_id: int
    outcome: RecordOutcome
    rows: int
    attempts: int
    notices: list[str] = []


class RecordJobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the ledger. `rows` and `attempts` are None until it is recorded; `staging_tables`
    counts those that are there; `command` ends the job or drops the staging tables of an ended one, and
    `undo_command` gives up a recorded job."""

    write_id: int
    job_id: str
    mode: WriteMode
    state: State
    age_seconds: float
    rows: int | None
    attempts: int | None
    staging_tables: int
    command: str | None = None
    undo_command: str | None = None


class EndedRecordJob(msgspec.Struct, frozen=True, kw_only=True):
    """What an abort did with a job: whether it `ended` it, and how many staging tables it `dropped`."""

    write_id: int
    job_id: str
    state: State
    ended: bool
    dropped: int
    notices: list[str] = []
